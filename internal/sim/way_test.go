package sim

import (
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
	resp, err := y.rt.RoundTrip(r)
	if err != nil {
		return nil, err
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
