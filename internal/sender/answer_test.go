package sender

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
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

// Where the platform throttles the app, or a page, the pause that its header asks for is told.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const app = `{"error":{"message":"(#4) Application request limit reached","type":"OAuthException","code":4}}`
	for _, row := range []struct {
		name         string
		body         string
		after, usage string
		want         time.Duration
	}{
		{"nothing", app, "", "", 0},
		{"seconds", app, "90", "", 90 * time.Second},
		{"minutes of two pages", app, "90", `{"1":[{"type":"messenger","estimated_time_to_regain_access":7}],"2":[{"estimated_time_to_regain_access":3}]}`, 7 * time.Minute},
		{"a wrong header", app, "soon", `{"1":7}`, 0},
		{"beyond all bounds", app, "-1", `{"1":[{"estimated_time_to_regain_access":999999999999}]}`, 24 * time.Hour},
		{"a page's limit", `{"error":{"message":"x","type":"OAuthException","code":613}}`, "90", "", 90 * time.Second},
		{"a date", app, now.Add(90 * time.Second).Format(http.TimeFormat), "", 90 * time.Second},
		{"a date that is over", app, now.Add(-time.Hour).Format(http.TimeFormat), "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := setup(t, func(c *Config) {
				c.Now = func() time.Time { return now }
				c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
					resp := response(400, row.body)
					resp.Header.Set("Retry-After", row.after)
					resp.Header.Set("X-Business-Use-Case-Usage", row.usage)
					return resp, nil
				})
			})
			if r := s.Send(t.Context(), outbound()); r.RetryAfter != row.want {
				t.Errorf("RetryAfter = %v, want %v", r.RetryAfter, row.want)
			}
		})
	}
}

// Every answer tells how full the fullest quota is.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		page, app string
		want      int
	}{
		{"", "", 0},
		{`{"1":[{"type":"messenger","call_count":97,"total_cputime":1}]}`, "", 97},
		{`{"1":[{"call_count": 7}],"2":[{"call_count":31}]}`, `{"call_count":12}`, 31},
		{`{"1":[{"call_count":7}]}`, `{"call_count":112,"total_time":3}`, 112},
		{`{"1":[{"call_count":-7}]}`, "call_count", 0},
		{`{"1":[{"call_count":99999999999999999999999}]}`, "", 9999},
	} {
		s := setup(t, func(c *Config) {
			c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
				resp := response(200, receipt)
				resp.Header.Set("X-Business-Use-Case-Usage", row.page)
				resp.Header.Set("X-App-Usage", row.app)
				return resp, nil
			})
		})
		if r := s.Send(t.Context(), outbound()); r.Outcome != Sent || r.Usage != row.want {
			t.Errorf("headers %q and %q: usage %d, want %d", row.page, row.app, r.Usage, row.want)
		}
	}
}
