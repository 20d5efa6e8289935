package users_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/users"
	"chatclub/fakeapi/webhook"
)

// TestUnsubscribed: events that the webhook never took are not expected of the
// system, and the users end as Messenger unsubscribes the app.
func TestUnsubscribed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeapitest.New(t, fakeapi.Config{})
		b := fakeapitest.NewBot(p, 5)
		hook := b.Webhook()
		hook.RetryFor, hook.AlertAfter, hook.UnsubscribeAfter = 5*time.Second, 7*time.Second, 10*time.Second
		u := newUsers(t, users.Config{API: p.API, Webhook: hook, Users: 5, EventsPerSecond: 10})
		if err := u.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Fail = func(int64) bool { return true }
		begin := time.Now()
		if err := u.Chat(t.Context(), time.Minute); !errors.Is(err, webhook.ErrUnsubscribed) {
			t.Errorf("Chat against a dead webhook = %v, want unsubscribed", err)
		}
		if d := time.Since(begin); d < 10*time.Second || d > 16*time.Second {
			t.Errorf("unsubscribed after %s, want 10 s to 16 s", d)
		}
		c := u.Counts()
		if c.Undelivered == 0 || c.Undelivered != c.Events-5 || c.Alerts != 1 {
			t.Errorf("counts = %+v, want every event of the chat undelivered and one alert", c)
		}
		want := fmt.Sprintf("events %d expected 5 accepted 5 lost 0 duplicated 0 unexpected 0 excused %d", c.Events, 4*c.Undelivered)
		if got := p.Line(); got != want {
			t.Errorf("ledger = %s\n           want %s", got, want)
		}
		if body := p.Ask("GET", "/ledger", "").Body; !strings.Contains(body, `"alerts":1,"unsubscribed":1,`) {
			t.Errorf("GET /ledger = %s, want one alert and unsubscribed", body)
		}
		checkMetrics(t, p, c)
	})
}

// checkMetrics compares the metrics of the users with their counts.
func checkMetrics(t *testing.T, p *fakeapitest.Platform, c fakeapi.UserCounts) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(p.Collector())
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
# HELP fakeapi_webhook_unsubscribed Webhooks that failed for so long that Messenger would send no more events.
# TYPE fakeapi_webhook_unsubscribed gauge
fakeapi_webhook_unsubscribed 1
`, c.Events, c.Undelivered, c.Posts, c.Retries)
	if err := testutil.GatherAndCompare(reg, strings.NewReader(metrics), "fakeapi_events_total", "fakeapi_webhook_alerts_total",
		"fakeapi_webhook_posts_total", "fakeapi_webhook_retries_total", "fakeapi_webhook_unsubscribed"); err != nil {
		t.Error(err)
	}
}
