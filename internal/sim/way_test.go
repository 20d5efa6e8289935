package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/queue"
)

// way is a dispatcher's transport to the platform. It can hang, and be slow.
type way struct {
	l    *link
	rt   http.RoundTripper
	slow atomic.Int32 // by so many times as long every answer comes later

	mu   sync.Mutex
	hung chan struct{} // nil: healthy
}

// RoundTrip implements http.RoundTripper.
func (y *way) RoundTrip(r *http.Request) (*http.Response, error) {
	y.mu.Lock()
	h := y.hung
	y.mu.Unlock()
	if h != nil {
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-h:
		}
	}
	if y.l.isDead() {
		return nil, queue.ErrClosed
	}
	began := time.Now()
	ids := idsOf(r)
	resp, err := y.rt.RoundTrip(r)
	if err != nil {
		y.l.w.note(y.l.name, fmt.Sprintf("no answer in %v", time.Since(began)), "", ids)
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		y.l.w.note(y.l.name, fmt.Sprintf("answer %d in %v", resp.StatusCode, time.Since(began)), "", ids)
	}
	select {
	case <-time.After(time.Duration(y.slow.Load()) * time.Since(began)):
		return resp, nil
	case <-r.Context().Done():
		_ = resp.Body.Close()
		return nil, r.Context().Err()
	}
}

func (y *way) hang(on bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if on && y.hung == nil {
		y.hung = make(chan struct{})
	} else if !on && y.hung != nil {
		close(y.hung)
		y.hung = nil
	}
}

// idsOf returns the ids of a call's messages.
func idsOf(r *http.Request) string {
	if r.GetBody == nil {
		return ""
	}
	var call struct{ Message struct{ Metadata string } }
	if body, err := r.GetBody(); err != nil || json.NewDecoder(body).Decode(&call) != nil {
		return "unread"
	}
	return call.Message.Metadata
}
