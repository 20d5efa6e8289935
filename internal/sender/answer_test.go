package sender

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// endless is a body without an end that knows how much was read of it.
type endless struct {
	read   atomic.Int64
	closed atomic.Bool
}

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func (e *endless) Close() error {
	e.closed.Store(true)
	return nil
}

func TestAnswerIsBounded(t *testing.T) {
	t.Parallel()
	body := &endless{}
	s := setup(t, func(c *Config) {
		c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 500, Body: body}, nil
		})
	})
	r := s.Send(t.Context(), outbound())
	if r.Outcome != Transient || r.CodeString() != "http 500" {
		t.Errorf("Send = %v, %q, want transient, http 500", r.Outcome, r.CodeString())
	}
	if n := body.read.Load(); n > 64<<10 || !body.closed.Load() {
		t.Errorf("read %d bytes, closed %v, want at most 65536 and closed", n, body.closed.Load())
	}
}

func TestAnswersDoNotMix(t *testing.T) {
	t.Parallel()
	answers := []string{envelope(100, 2018001, ""), receipt, "{}", ""}
	i := 0
	s := setup(t, func(c *Config) {
		c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			i++
			return response(200, answers[i-1]), nil
		})
	})
	for n, want := range []string{"", "m_1", "", ""} { // a short answer sees nothing of a longer one before it
		if got := s.Send(t.Context(), outbound()).MessageID; got != want {
			t.Errorf("answer %d: message id = %q, want %q", n, got, want)
		}
	}
}
