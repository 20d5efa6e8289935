package fakeapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/fakeapi"
)

// chat runs a source against a bot in a bubble.
func chat(t *testing.T, api fakeapi.Config, change func(*fakeapi.SourceConfig, *bot), check func(*testing.T, *fakeapi.API, *fakeapi.Source, *bot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, api)
		b := newBot(a, 5)
		c := fakeapi.SourceConfig{
			API: a, URL: "http://bot.test/webhook", Secret: secret, Transport: b,
			Pages: 2, Rooms: 3, Users: 5, EventsPerSecond: 20, Seed: 1,
		}
		change(&c, b)
		s, err := fakeapi.NewSource(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(context.Background(), 10*time.Second); err != nil {
			t.Fatalf("Run = %v, want nil", err)
		}
		s.Settle(context.Background(), 2*time.Minute)
		b.wait()
		if b.badSignature.Load() > 0 {
			t.Errorf("webhooks with a wrong signature = %d, want 0", b.badSignature.Load())
		}
		check(t, a, s, b)
	})
}

// A run without faults: 30 joins with a welcome each, and 200 events for the
// four others of a room.
const clean = "events 230 expected 830 accepted 830 lost 0 duplicated 0 unexpected 0 excused 0"

func TestSourceAndLedger(t *testing.T) {
	t.Parallel()
	wantLine := func(want string) func(*testing.T, *fakeapi.API, *fakeapi.Source, *bot) {
		return func(t *testing.T, a *fakeapi.API, _ *fakeapi.Source, _ *bot) {
			t.Helper()
			if got := line(a); got != want {
				t.Errorf("ledger = %s\n           want %s", got, want)
			}
		}
	}
	tests := map[string]struct {
		api    fakeapi.Config
		change func(*fakeapi.SourceConfig, *bot)
		check  func(*testing.T, *fakeapi.API, *fakeapi.Source, *bot)
	}{
		"clean": {fakeapi.Config{}, func(*fakeapi.SourceConfig, *bot) {}, wantLine(clean)},
		"batches": {fakeapi.Config{}, func(c *fakeapi.SourceConfig, _ *bot) { c.Batches = 1 }, func(t *testing.T, a *fakeapi.API, s *fakeapi.Source, _ *bot) {
			t.Helper()
			if got := a.Ledger().Totals(); got.Lost+got.Duplicated+got.Unexpected > 0 || got.Events < 230 {
				t.Errorf("ledger = %s, want at least 230 events and no fault", line(a))
			}
			if c := s.Counts(); c.Posts >= c.Events-90 {
				t.Errorf("posts = %d for %d events, want fewer", c.Posts, c.Events)
			}
		}},
		"duplicated webhooks": {fakeapi.Config{}, func(c *fakeapi.SourceConfig, _ *bot) { c.Duplicates = .5 }, func(t *testing.T, a *fakeapi.API, s *fakeapi.Source, b *bot) {
			t.Helper()
			wantLine(clean)(t, a, s, b)
			if c := s.Counts(); c.Repeats < 60 || c.Repeats != b.repeated.Load() {
				t.Errorf("repeats = %d, the bot saw %d, want the same, about 100", c.Repeats, b.repeated.Load())
			}
		}},
		"out of order": {fakeapi.Config{}, func(c *fakeapi.SourceConfig, _ *bot) { c.OutOfOrder = .5 }, wantLine(clean)},
		"pictures": {fakeapi.Config{}, func(c *fakeapi.SourceConfig, _ *bot) { c.Pictures = .5 }, func(t *testing.T, a *fakeapi.API, s *fakeapi.Source, b *bot) {
			t.Helper()
			// Each picture is one message more for each of the four others.
			more := 4 * b.pictures.Load()
			wantLine(fmt.Sprintf("events 230 expected %d accepted %[1]d lost 0 duplicated 0 unexpected 0 excused 0", 830+more))(t, a, s, b)
			if n := s.Counts().Pictures; n < 70 || n > 130 || b.pictures.Load() < n*3/2 || b.pictures.Load() > n*5/2 {
				t.Errorf("messages with pictures = %d with %d pictures, want about 100 with two each", n, b.pictures.Load())
			}
		}},
		"webhook fails at times": {fakeapi.Config{}, func(_ *fakeapi.SourceConfig, b *bot) {
			b.fail = func(n int64) bool { return n%3 == 0 }
		}, func(t *testing.T, a *fakeapi.API, s *fakeapi.Source, b *bot) {
			t.Helper()
			wantLine(clean)(t, a, s, b)
			if c := s.Counts(); c.Retries < 100 || c.Undelivered != 0 || c.Posts != c.Retries+230 {
				t.Errorf("counts = %+v, want about 115 retries, and posts = retries + 230", c)
			}
		}},
		"copies are lost": {fakeapi.Config{}, func(_ *fakeapi.SourceConfig, b *bot) {
			b.lose = func(n int64) bool { return n > 30 && n%100 == 0 }
		}, wantLine("events 230 expected 830 accepted 822 lost 8 duplicated 0 unexpected 0 excused 0")},
		"copies are doubled": {fakeapi.Config{}, func(_ *fakeapi.SourceConfig, b *bot) {
			b.twice = func(n int64) bool { return n%100 == 0 }
		}, wantLine("events 230 expected 830 accepted 838 lost 0 duplicated 8 unexpected 0 excused 0")},
		"rooms of another size": {fakeapi.Config{}, func(_ *fakeapi.SourceConfig, b *bot) {
			b.capacity = 6
		}, func(t *testing.T, a *fakeapi.API, _ *fakeapi.Source, _ *bot) {
			t.Helper()
			if got := a.Ledger().Totals(); got.Lost == 0 || got.Unexpected == 0 {
				t.Errorf("ledger = %s, want copies lost and unexpected", line(a))
			}
		}},
		"platform with faults": {
			fakeapi.Config{Settings: settings(func(s *fakeapi.Settings) {
				s.Text.PerSecond = 30 // of 40/s needed in the chat
				s.Faults = fakeapi.Faults{ServerError: .05, ResetBefore: .05}
				s.Latency = mustLatency("lognormal:40ms,150ms")
			})},
			func(*fakeapi.SourceConfig, *bot) {},
			wantLine(clean),
		},
		"platform that lies": {
			fakeapi.Config{Settings: settings(func(s *fakeapi.Settings) { s.Faults.ResetAfter = .2 })},
			func(*fakeapi.SourceConfig, *bot) {},
			func(t *testing.T, a *fakeapi.API, _ *fakeapi.Source, _ *bot) {
				t.Helper()
				if c := a.Ledger().Totals(); c.Lost != 0 || c.Duplicated < 100 || c.Accepted != c.Expected+c.Duplicated {
					t.Errorf("ledger = %s, want nothing lost and every fifth copy doubled by the retry", line(a))
				}
			},
		},
		"receipts": {fakeapi.Config{}, func(c *fakeapi.SourceConfig, _ *bot) { c.Receipts = true }, func(t *testing.T, a *fakeapi.API, s *fakeapi.Source, b *bot) {
			t.Helper()
			wantLine(clean)(t, a, s, b)
			if b.echoes.Load() < 700 || s.Counts().Receipts < 1400 {
				t.Errorf("echoes = %d, receipts = %d, want at least 700 and 1400", b.echoes.Load(), s.Counts().Receipts)
			}
		}},
		"bad recipients": {fakeapi.Config{}, func(c *fakeapi.SourceConfig, _ *bot) { c.BadRecipients = .2 }, func(t *testing.T, a *fakeapi.API, _ *fakeapi.Source, _ *bot) {
			t.Helper()
			if c := a.Ledger().Totals(); c.Lost != 0 || c.Rejected == 0 || c.Unexpected != 0 {
				t.Errorf("ledger = %s rejected %d, want nothing lost although some cannot be reached", line(a), c.Rejected)
			}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chat(t, tc.api, tc.change, tc.check)
		})
	}
}

func mustLatency(s string) fakeapi.Latency {
	l, err := fakeapi.ParseLatency(s)
	if err != nil {
		panic(err)
	}
	return l
}

// TestUndelivered: what the webhook never took is not expected of the system.
func TestUndelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer // a slog handler writes one line at a time
		a := newAPI(t, fakeapi.Config{})
		b := newBot(a, 5)
		s, err := fakeapi.NewSource(fakeapi.SourceConfig{
			API: a, URL: "http://bot.test/webhook", Secret: secret, Transport: b,
			Log:   plainLog(&logged),
			Users: 5, EventsPerSecond: 10, RetryFor: 5 * time.Second, AlertAfter: 7 * time.Second, UnsubscribeAfter: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.fail = func(int64) bool { return true }
		begin := time.Now()
		err = s.Chat(t.Context(), time.Minute)
		if err == nil || !strings.Contains(err.Error(), "unsubscribed") {
			t.Errorf("Chat against a dead webhook = %v, want unsubscribed", err)
		}
		if d := time.Since(begin); d < 10*time.Second || d > 16*time.Second {
			t.Errorf("unsubscribed after %s, want 10 s to 16 s", d)
		}
		c := s.Counts()
		if c.Undelivered == 0 || c.Undelivered != c.Events-5 || c.Alerts != 1 {
			t.Errorf("counts = %+v, want every event of the chat undelivered and one alert", c)
		}
		want := fmt.Sprintf("events %d expected 5 accepted 5 lost 0 duplicated 0 unexpected 0 excused %d", c.Events, 4*c.Undelivered)
		if got := line(a); got != want {
			t.Errorf("ledger = %s\n           want %s", got, want)
		}
		wantAlert(t, a, logged.String())
	})
}

// wantAlert: one alert and the end of the events can be seen in the log, in the
// ledger's JSON and in the metrics.
func wantAlert(t *testing.T, a *fakeapi.API, logged string) {
	t.Helper()
	want := "level=WARN msg=\"webhook keeps failing\" failing_for=7s unsubscribed_after=10s\n" +
		"level=ERROR msg=\"webhook failed for too long: no more events\" failing_for=10s\n"
	if logged != want {
		t.Errorf("logged:\n%swant:\n%s", logged, want)
	}
	if body := mustDo(t, a, "GET", "/ledger", "").body; !strings.Contains(body, `"alerts":1,"unsubscribed":1}`) {
		t.Errorf("GET /ledger = %s, want one alert and unsubscribed", body)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(a.Collector())
	c := a.SourceTotals()
	metrics := fmt.Sprintf(`
# HELP fakeapi_events_total Events of the simulated users: posted, and of these undelivered; skipped because too many were unanswered.
# TYPE fakeapi_events_total counter
fakeapi_events_total{state="posted"} %d
fakeapi_events_total{state="skipped"} 0
fakeapi_events_total{state="undelivered"} %d
# HELP fakeapi_webhook_alerts_total Times that Messenger would have written to the developer because the webhook kept failing.
# TYPE fakeapi_webhook_alerts_total counter
fakeapi_webhook_alerts_total 1
# HELP fakeapi_webhook_posts_total Webhooks sent, retries included.
# TYPE fakeapi_webhook_posts_total counter
fakeapi_webhook_posts_total %d
# HELP fakeapi_webhook_retries_total Webhooks sent again because they were not answered 200.
# TYPE fakeapi_webhook_retries_total counter
fakeapi_webhook_retries_total %d
# HELP fakeapi_webhook_unsubscribed Sources whose webhook failed for so long that Messenger would send no more events.
# TYPE fakeapi_webhook_unsubscribed gauge
fakeapi_webhook_unsubscribed 1
`, c.Events, c.Undelivered, c.Posts, c.Retries)
	if err := testutil.GatherAndCompare(reg, strings.NewReader(metrics), "fakeapi_events_total", "fakeapi_webhook_alerts_total",
		"fakeapi_webhook_posts_total", "fakeapi_webhook_retries_total", "fakeapi_webhook_unsubscribed"); err != nil {
		t.Error(err)
	}
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

// TestOpenLoop: a slow webhook does not slow the source.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, fakeapi.Config{})
		b := newBot(a, 5)
		slow := roundTripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return b.RoundTrip(r)
		})
		s, err := fakeapi.NewSource(fakeapi.SourceConfig{
			API: a, URL: "http://bot.test/webhook", Secret: secret, Transport: slow, Users: 5, EventsPerSecond: 50,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		b.wait()
		if got := s.Counts().Events; got != 5+500 {
			t.Errorf("events in 10 s at 50/s = %d, want 500 and 5 joins", got)
		}
		if got := s.Counts().AnswerP50; got < 3*time.Second || got > 3500*time.Millisecond {
			t.Errorf("median answer = %s, want 3 s to 3.5 s", got)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRunEnds: a canceled run withdraws what is unanswered and leaves no
// goroutine behind (the bubble would not end).
func TestRunEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, fakeapi.Config{})
		b := newBot(a, 5)
		hang := roundTripper(func(r *http.Request) (*http.Response, error) {
			if b.webhooks.Load() < 5 {
				return b.RoundTrip(r)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		s, err := fakeapi.NewSource(fakeapi.SourceConfig{
			API: a, URL: "http://bot.test/webhook", Secret: secret, Transport: hang, Users: 5, Receipts: true, OutOfOrder: .5,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := s.Run(ctx, 0); err != nil {
			t.Errorf("Run = %v, want nil after cancel", err)
		}
		b.wait()
		if got := a.Ledger().Totals(); got.Lost != 0 || got.Excused == 0 {
			t.Errorf("ledger = %s, want nothing lost and the unanswered excused", line(a))
		}
	})
}

func TestJoinWithoutWelcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, fakeapi.Config{})
		b := newBot(a, 5)
		b.lose = func(n int64) bool { return n == 3 }
		s, err := fakeapi.NewSource(fakeapi.SourceConfig{API: a, URL: "http://bot.test/", Secret: secret, Transport: b})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Join(t.Context())
		b.wait()
		if err == nil || !strings.Contains(err.Error(), "join user 2 of page 100000000000000: no welcome") {
			t.Errorf("Join with a lost welcome = %v, want it to name the user", err)
		}
	})
}

func TestNewSourceNamesFaults(t *testing.T) {
	t.Parallel()
	_, err := fakeapi.NewSource(fakeapi.SourceConfig{URL: "nowhere", Pages: -1, Users: 1, EventsPerSecond: -1, Duplicates: 2})
	for _, want := range []string{"API", "URL", "Secret", "Pages", "Users", "EventsPerSecond", "Duplicates"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewSource(all wrong) = %v, want it to name %s", err, want)
		}
	}
}
