package broadcast

import (
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
)

// Parts returns the messages of a text, which go to each recipient together.
func Parts(text string) []string { return plaintext.Split(text, fanout.MaxText) }

// job is a broadcast that a Scheduler holds, and its progress.
type job struct {
	rooms.Broadcast
	queue string // its page's partition
	parts []string
	next  time.Time // when its next round is
}

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
	return int(min(int64(now.Sub(from)/j.interval())+1, int64(max(1, maxPublish/len(j.parts))))), from
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
// maxPublish messages.
func batches(due []*job, now time.Time) [][]*job {
	var list [][]*job
	free, messages := 0, 0
	for _, j := range due {
		n, _ := j.allowed(now)
		if free == 0 || messages >= maxPublish {
			list, free, messages = append(list, nil), maxJobs, 0
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
