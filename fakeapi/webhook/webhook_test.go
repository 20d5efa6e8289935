package webhook

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"chatclub/fakeapi/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer makes a function a webhook without a socket: it returns the status.
type answer func(*http.Request) int

func (f answer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f(r), Body: http.NoBody, Request: r}, nil
}

func newClient(t *testing.T, c Config) *Client {
	t.Helper()
	c.URL, c.Secret = "http://hook.test/", "key"
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// announced is a post of one message whose copy for user 42 is expected.
func announced(l *ledger.Ledger, mid string) *Post {
	return &Post{
		Events:    []Event{{Page: "1", User: "7", MID: mid, Text: "x"}},
		Announced: []*ledger.Event{l.Announce("1", ledger.Expected{ID: mid, Recipient: "42"})},
	}
}

// A client that stops while a post is under way gets its result: a webhook that took
// the event sends its copies.
func TestStoppingHearsTheLastAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ledger.New(ledger.Config{})
		ctx, stop := context.WithCancel(t.Context())
		posts := 0
		status := http.StatusOK
		c := newClient(t, Config{Transport: answer(func(r *http.Request) int {
			posts++
			stop()
			select {
			case <-r.Context().Done():
				return 0
			case <-time.After(time.Second):
				return status
			}
		})})
		if !c.Deliver(ctx, announced(l, "taken")) || l.Totals().Pending != 1 {
			t.Errorf("of an event that was taken %v are awaited, want 1", l.Totals())
		}
		status = http.StatusServiceUnavailable
		if c.Deliver(ctx, announced(l, "not taken")) || posts != 2 || l.Totals().Excused != 1 {
			t.Errorf("after %d posts %v, want 2, and one copy excused", posts, l.Totals())
		}
	})
}

// TestDeliverTriesAgain: the same body comes at 0 s, 0.1 s, 0.3 s … until it is
// taken.
func TestDeliverTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		var bodies []string
		begin := time.Now()
		l := ledger.New(ledger.Config{})
		c := newClient(t, Config{Transport: answer(func(r *http.Request) int {
			b, _ := io.ReadAll(r.Body)
			at, bodies = append(at, time.Since(begin)), append(bodies, string(b))
			if len(at) < 9 {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		})})
		if !c.Deliver(t.Context(), announced(l, "m")) {
			t.Error("Deliver = false, want true once the webhook answers 200")
		}
		const ms = time.Millisecond
		want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 11300 * ms, 16300 * ms}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("times of the posts: -want +got\n%s", diff)
		}
		if slices.ContainsFunc(bodies, func(b string) bool { return b != bodies[0] }) {
			t.Errorf("bodies = %q, want the same each time", bodies)
		}
		if diff := cmp.Diff(Counts{Events: 1, Posts: 9, Retries: 8}, c.Counts()); diff != "" {
			t.Errorf("counts: -want +got\n%s", diff)
		}
		if got := l.Totals().Pending; got != 1 {
			t.Errorf("awaited ids = %d, want 1", got)
		}
	})
}

// TestDeliverGivesUp: after RetryFor an event is withdrawn, and after
// UnsubscribeAfter none is tried twice.
func TestDeliverGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := ledger.New(ledger.Config{})
		status := http.StatusServiceUnavailable
		c := newClient(t, Config{
			Transport: answer(func(*http.Request) int { return status }),
			Log:       plainLog(&log), RetryFor: 5 * time.Second, AlertAfter: 7 * time.Second, UnsubscribeAfter: 10 * time.Second,
		})
		begin := time.Now()
		gaveUp := func(after time.Duration) {
			t.Helper()
			if c.Deliver(t.Context(), announced(l, time.Since(begin).String())) {
				t.Error("Deliver to a webhook that fails = true, want false")
			}
			if got := time.Since(begin); got != after {
				t.Errorf("given up after %s, want %s", got, after)
			}
		}
		gaveUp(3100 * time.Millisecond) // the next attempt would be at 6.3 s
		gaveUp(6200 * time.Millisecond)
		status = http.StatusOK
		if !c.Try(t.Context(), announced(l, "taken")) {
			t.Error("Try = false, want true")
		}
		status = http.StatusServiceUnavailable
		for range 3 {
			c.Try(t.Context(), announced(l, "failing since 6.2 s"))
			time.Sleep(4 * time.Second)
		}
		gaveUp(18200 * time.Millisecond)
		if !c.Unsubscribed() {
			t.Error("Unsubscribed after 12 s of failures = false, want true")
		}
		status = http.StatusOK
		c.Try(t.Context(), announced(l, "late"))
		want := "level=WARN msg=\"webhook keeps failing\" failing_for=8s unsubscribed_after=10s\n" +
			"level=ERROR msg=\"webhook failed for too long: no more events\" failing_for=12s\n" +
			"level=INFO msg=\"webhook answers again\" failed_for=12s\n"
		if diff := cmp.Diff(want, log.String()); diff != "" {
			t.Errorf("logged: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(Counts{Events: 3, Undelivered: 3, Posts: 18, Retries: 10, Alerts: 1, Unsubscribed: 1}, c.Counts()); diff != "" {
			t.Errorf("counts: -want +got\n%s", diff)
		}
		if got := l.Totals().Excused; got != 3 {
			t.Errorf("excused ids = %d, want 3", got)
		}
	})
}

// plainLog writes lines without a time.
func plainLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestOrderIsThatOfPosting: a post that is late follows those that were
// answered before it, although its event was announced first.
func TestOrderIsThatOfPosting(t *testing.T) {
	t.Parallel()
	l := ledger.New(ledger.Config{})
	c := newClient(t, Config{Transport: answer(func(*http.Request) int { return http.StatusOK })})
	late, early := announced(l, "late"), announced(l, "early")
	if !c.Deliver(t.Context(), early) || !c.Deliver(t.Context(), late) {
		t.Fatal("Deliver = false, want true")
	}
	for _, id := range []string{"late", "early"} {
		l.Page("1").Record(time.Now(), ledger.Send{Recipient: "42", ID: id})
	}
	if got := l.Totals().Inversions; got != 1 {
		t.Errorf("inversions = %d, want 1", got)
	}
}

func TestNewNamesFaults(t *testing.T) {
	t.Parallel()
	_, err := New(Config{URL: "nowhere"})
	for _, want := range []string{"URL", "Secret"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(all wrong) = %v, want it to name %s", err, want)
		}
	}
}
