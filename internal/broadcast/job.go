package broadcast

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"chatclub/internal/fanout"
	"chatclub/internal/message"
	"chatclub/internal/plaintext"
	"chatclub/internal/rooms"
)

const (
	// roundEvery is the time between two rounds of a broadcast, unless its rate
	// is lower. A round costs two round trips to the database, which other
	// broadcasts share.
	roundEvery = time.Second
	// maxLag is how far behind its rate a broadcast catches up: a round that is
	// half a second late loses nothing.
	maxLag = roundEvery + 500*time.Millisecond
	// maxPublish is how many messages are published at once. A broker takes them
	// in a tenth of a second, far below the time-out of a confirmation.
	maxPublish = 1000
	// maxJobs is how many jobs share the round trips and the publish of a round.
	maxJobs = 50
	// sharedTimeout is how long the read of several jobs may take before they are
	// divided. It is twice the time between two rounds, and a healthy read takes
	// milliseconds. A job alone has the ten seconds of every operation.
	sharedTimeout = 2 * roundEvery
)

// Parts returns the messages of a text, which go to each recipient together.
func Parts(text string) []string { return plaintext.Split(text, fanout.MaxText) }

// job is a broadcast that a Scheduler holds, and its progress.
type job struct {
	rooms.Broadcast
	queue string // its page's partition
	parts []string
	next  time.Time // when its next round is
	busy  bool      // it is in a round
	// share is how many jobs its round may have. It is halved when a round's rows
	// cannot be read, so that a job that the database cannot serve is soon alone. It is
	// doubled when a read succeeds.
	share int
	// most is how many recipients a round reads of it, halved and doubled likewise
	// once it is alone.
	most int
}

// noteRead changes the bounds of j after the read of a round of n jobs, in which so
// many recipients of j were asked for. A database that is away tells nothing about j.
func (j *job) noteRead(n, asked int, err error) {
	switch {
	case err != nil && !errors.Is(err, rooms.ErrUnreadable):
	case err == nil && j.most < maxPublish:
		j.most = min(2*j.most, maxPublish)
	case err == nil:
		j.share = min(2*j.share, maxJobs)
	case n > 1:
		j.share = max(1, n/2)
	default:
		j.share, j.most = 1, max(1, asked/2)
	}
}

// isSuspect reports whether the database could not even read j alone, and has not
// read as much of it since.
func (j *job) isSuspect() bool { return j.most < maxPublish }

// interval returns the time between two recipients.
func (j *job) interval() time.Duration {
	seconds := min(float64(len(j.parts))/j.Rate, rooms.Window.Seconds())
	return max(1, time.Duration(seconds*float64(time.Second)))
}

// allowed returns how many recipients are due now: 1 + rate × the time since the
// next one was due, at most maxLag. from is when the first of them was due.
func (j *job) allowed(now time.Time) (n int, from time.Time) {
	from = latest(j.Due, now.Add(-maxLag))
	if from.After(now) {
		return 0, from
	}
	return int(min(int64(now.Sub(from)/j.interval())+1, int64(max(1, min(j.most, maxPublish/len(j.parts)))))), from
}

// progress returns j's progress after the recipients to, of which the first was
// due at from.
func (j *job) progress(from time.Time, state rooms.BroadcastState, to ...string) rooms.Progress {
	p := rooms.Progress{Broadcast: j.Broadcast, From: j.Cursor}
	p.State = state
	if n := len(to); n > 0 {
		p.Queued += n
		p.Cursor = to[n-1]
		p.Due = from.Add(time.Duration(n) * j.interval())
	}
	return p
}

// appendMessages appends the messages to the recipients.
func (j *job) appendMessages(list []message.Outbound, to []string, now time.Time) []message.Outbound {
	for _, user := range to {
		for part, text := range j.parts {
			list = append(list, message.Outbound{
				ID: j.messageID(user, part), Page: j.Page, To: user, Class: message.ClassText,
				Text: text, Time: now.UnixMilli(), Broadcast: j.ID, Deadline: j.Deadline.UnixMilli(),
			})
		}
	}
	return list
}

// confirmed returns how many of the recipients, from the first on, have none of
// their messages missing.
func (j *job) confirmed(to []string, missing map[string]bool) int {
	if len(missing) == 0 {
		return len(to)
	}
	for i, user := range to {
		for part := range j.parts {
			if missing[j.messageID(user, part)] {
				return i
			}
		}
	}
	return len(to)
}

// messageID returns the id of one message to one recipient.
func (j *job) messageID(user string, part int) string {
	return message.CopyID(j.Page, "broadcast-"+j.ID, user, part)
}

// batches divides jobs among rounds, each of at most maxJobs jobs and about
// maxPublish messages, and no more jobs than each of them may share a round with.
// Jobs with a larger share come first.
func batches(due []*job, now time.Time) [][]*job {
	slices.SortStableFunc(due, func(a, b *job) int { return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(b.most, a.most)) })
	var list [][]*job
	free, messages, share := 0, 0, 0
	for _, j := range due {
		n, _ := j.allowed(now)
		if free == 0 || messages >= maxPublish || j.share != share {
			list, free, messages, share = append(list, nil), j.share, 0, j.share
		}
		list[len(list)-1] = append(list[len(list)-1], j)
		free--
		messages += n * len(j.parts)
	}
	return list
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
