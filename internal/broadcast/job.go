package broadcast

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/message"
	"chatclub/internal/plaintext"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

const (
	// roundEvery is the time between two rounds of a broadcast, unless its rate
	// is lower. A round costs two round trips to the database.
	roundEvery = time.Second
	// maxLag is the lag behind its rate that a broadcast makes up for: a round that is
	// half a second late loses nothing.
	maxLag = roundEvery + 500*time.Millisecond
	// maxPublish is the size of one publish. A broker takes them in a tenth of a
	// second, far below the time-out of a confirmation.
	maxPublish = 1000
)

// Parts returns the messages of a text, which go to each recipient together.
func Parts(text string) []string { return plaintext.Split(text, message.MaxText) }

// job is a broadcast that a Scheduler holds, and its progress. One goroutine works on it.
type job struct {
	rooms.Broadcast
	queue    string // its page's partition
	parts    []string
	next     time.Time // when its next round is
	failures int       // rounds in a row that failed
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

// messages returns the messages to the recipients.
func (j *job) messages(to []string, now time.Time) []message.Outbound {
	var list []message.Outbound
	for _, user := range to {
		for part, text := range j.parts {
			list = append(list, message.Outbound{
				ID: message.CopyID(j.Page, "broadcast-"+j.ID, user, part), Page: j.Page, To: user, Class: message.ClassText,
				Text: text, Time: now.UnixMilli(), Broadcast: j.ID, Deadline: j.Deadline.UnixMilli(),
			})
		}
	}
	return list
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// jobs holds the broadcasts of a Scheduler. Safe for concurrent use.
type jobs struct {
	gauge prometheus.Gauge // how many there are
	top   queue.Topology

	mu   sync.Mutex
	byID map[string]*job
}

func newJobs(gauge prometheus.Gauge, top queue.Topology) *jobs {
	return &jobs{gauge: gauge, top: top, byID: make(map[string]*job)}
}

// add adds claimed broadcasts, and returns those that were not here. Their first rounds
// are spread over a second, so that they do not come at one time for ever.
func (js *jobs) add(claimed []rooms.Broadcast, now time.Time) (begun []*job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	for i, b := range claimed {
		if js.byID[b.ID] == nil {
			next := now.Add(roundEvery * time.Duration(i) / time.Duration(len(claimed)))
			j := &job{Broadcast: b, queue: js.top.OutboundOf(b.Page), parts: Parts(b.Text), next: next}
			js.byID[b.ID] = j
			begun = append(begun, j)
		}
	}
	js.gauge.Set(float64(len(js.byID)))
	return begun
}

// remove removes a job that ended or was lost.
func (js *jobs) remove(j *job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	delete(js.byID, j.ID)
	js.gauge.Set(float64(len(js.byID)))
}

// missing returns which of these ids are not here.
func (js *jobs) missing(ids []string) []string {
	js.mu.Lock()
	defer js.mu.Unlock()
	var list []string
	for _, id := range ids {
		if js.byID[id] == nil {
			list = append(list, id)
		}
	}
	return list
}

// queues returns the partitions that the broadcasts here and the claimed ones go
// to, each once.
func (js *jobs) queues(claimed []rooms.Broadcast) []string {
	js.mu.Lock()
	defer js.mu.Unlock()
	var list []string
	for _, j := range js.byID {
		list = append(list, j.queue)
	}
	for _, b := range claimed {
		list = append(list, js.top.OutboundOf(b.Page))
	}
	slices.Sort(list)
	return slices.Compact(list)
}
