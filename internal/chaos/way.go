package chaos

import (
	"net/http"
	"sync/atomic"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

// Health is the state of a dispatcher's way to the platform.
type Health int32

// The states of a way.
const (
	Healthy Health = iota
	Slow           // every answer takes ten times as long
	Hung           // no call gets through, and none is answered
)

// slowdown is the factor by which the answers of a slow way take longer.
const slowdown = 10

// Way is one dispatcher's http.RoundTripper to the platform. A dead dispatcher's
// calls fail before they are made; those in flight stay made. Safe for concurrent
// use.
type Way struct {
	link   *Link
	rt     http.RoundTripper
	health atomic.Int32
	calls  atomic.Int32 // that the platform has taken and not answered
}

// NewWay returns a healthy way.
func NewWay(l *Link, rt http.RoundTripper) *Way { return &Way{link: l, rt: rt} }

// SetHealth changes the state of the way.
func (w *Way) SetHealth(h Health) { w.health.Store(int32(h)) }

// InFlight returns how many calls the platform has taken and not answered.
func (w *Way) InFlight() int { return int(w.calls.Load()) }

// RoundTrip implements http.RoundTripper.
func (w *Way) RoundTrip(r *http.Request) (*http.Response, error) {
	if Health(w.health.Load()) == Hung {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if w.link.IsDead() {
		return nil, queue.ErrClosed
	}
	w.calls.Add(1)
	defer w.calls.Add(-1)
	began := time.Now()
	resp, err := w.rt.RoundTrip(r)
	if err == nil && Health(w.health.Load()) == Slow && !backoff.Sleep(r.Context(), (slowdown-1)*time.Since(began)) {
		_ = resp.Body.Close() // of the fake in this process: it never fails
		return nil, r.Context().Err()
	}
	return resp, err
}
