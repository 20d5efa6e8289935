package broadcast

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// jobs holds the broadcasts of a Scheduler. Safe for concurrent use, but the fields
// of a busy job belong to the goroutine of its round.
type jobs struct {
	gauge prometheus.Gauge // how many there are
	top   queue.Topology

	mu   sync.Mutex
	byID map[string]*job
}

func newJobs(gauge prometheus.Gauge, top queue.Topology) *jobs {
	return &jobs{gauge: gauge, top: top, byID: make(map[string]*job)}
}

// add adds claimed broadcasts. Their first rounds are spread over a second, so
// that they do not come in the same tick for ever.
func (js *jobs) add(claimed []rooms.Broadcast, now time.Time) {
	js.mu.Lock()
	defer js.mu.Unlock()
	for i, b := range claimed {
		if js.byID[b.ID] == nil {
			next := now.Add(roundEvery * time.Duration(i) / time.Duration(len(claimed)))
			js.byID[b.ID] = &job{Broadcast: b, queue: js.top.OutboundOf(b.Page), parts: Parts(b.Text), next: next, share: maxJobs, most: maxPublish}
		}
	}
	js.gauge.Set(float64(len(js.byID)))
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

// take makes jobs busy, so that they are in no other round until give.
func (js *jobs) take(round []*job) { js.setBusy(round, true) }

// give ends what take began.
func (js *jobs) give(round []*job) { js.setBusy(round, false) }

func (js *jobs) setBusy(round []*job, busy bool) {
	js.mu.Lock()
	defer js.mu.Unlock()
	for _, j := range round {
		j.busy = busy
	}
}

// due returns the jobs whose next round is not after now, the earliest first.
// Those that are busy are left out.
func (js *jobs) due(now time.Time) []*job {
	js.mu.Lock()
	defer js.mu.Unlock()
	var due []*job
	for _, j := range js.byID {
		if !j.busy && !j.next.After(now) {
			due = append(due, j)
		}
	}
	slices.SortFunc(due, func(a, b *job) int { return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.ID, b.ID)) })
	return due
}

// untilNext returns the time until the next round of any job, at most an hour. A
// busy job may be free again, and due, within a tick.
func (js *jobs) untilNext(now time.Time) time.Duration {
	js.mu.Lock()
	defer js.mu.Unlock()
	next := time.Hour
	for _, j := range js.byID {
		if j.busy {
			next = min(next, tick)
		} else {
			next = min(next, j.next.Sub(now))
		}
	}
	return next
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

func (js *jobs) len() int {
	js.mu.Lock()
	defer js.mu.Unlock()
	return len(js.byID)
}
