package sender

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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

// TestLongAnswerToABatch: each call may be answered as long as if it were made
// by itself.
func TestLongAnswerToABatch(t *testing.T) {
	t.Parallel()
	refusal := envelope(551, 1545041, `,"error_user_msg":"`+strings.Repeat("x", 60<<10)+`"`)
	part, err := json.Marshal(map[string]any{"code": 400, "body": refusal})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		send := setup(t, func(c *Config) {
			c.Tokens = StaticTokens(map[string]string{"1": "token-1"})
			c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				return response(200, "["+string(part)+","+string(part)+","+string(part)+"]"), nil
			})
		})
		b, err := NewBatcher(BatchConfig{Sender: send, Size: 3, Wait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		got := count(sendAll(t.Context(), &platform{Batcher: b}, copies("1", 3)...))
		if diff := cmp.Diff(map[Outcome]int{RecipientGone: 3}, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}
