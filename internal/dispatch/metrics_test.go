package dispatch

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// Every way in which a message or call can end, and what is counted of it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Random = half }, func(t *testing.T, r *rig) {
		script := map[string][]sender.Outcome{ // of each page's calls in turn; then sent
			"hot":     {sender.PageThrottled, sender.PageThrottled, sender.PageThrottled},
			"app":     {sender.AppThrottled},
			"flaky":   {sender.Transient, sender.RecipientThrottled, sender.Transient, sender.Transient, sender.Transient},
			"stopped": {sender.PageStopped, sender.PageStopped, sender.PageStopped, sender.PageStopped, sender.PageStopped}, // the last one of a probe
			"gone":    {sender.RecipientGone},
			"bad":     {sender.BadMessage},
			"doubled": {sender.Ambiguous},
			"foreign": {sender.NotOurs},
			"closed":  {sender.WindowClosed},
		}
		r.script(func(o message.Outbound, _ int) sender.Result {
			rest := script[o.Page]
			if len(rest) == 0 {
				return sender.Result{}
			}
			script[o.Page] = rest[1:]
			return fail(rest[0])
		})
		for _, page := range []string{"plain", "hot", "app", "flaky", "stopped", "gone", "bad", "doubled", "foreign", "closed"} {
			r.text(page, "u")
			r.sleep(5 * time.Second)
		}
		old := r.copyOf("plain", message.ClassText, "u")
		old.Time = time.Now().Add(-2 * time.Hour).UnixMilli()
		r.publish(old)
		r.text("stopped", "u")
		r.text("plain", "w")
		r.sleep(20 * time.Millisecond)
		r.text("plain", "w", "w") // they wait for the call, and are joined
		r.sleep(time.Hour)
		r.text("stopped", "u") // its probe
		r.sleep(time.Minute)

		want := `
# HELP chatclub_dispatch_api_breaker_open 1 while the Send API takes no calls, so that it is probed.
# TYPE chatclub_dispatch_api_breaker_open gauge
chatclub_dispatch_api_breaker_open 0
# HELP chatclub_dispatch_api_silent 1 while no call is answered, and while this dispatcher is behind all others for that.
# TYPE chatclub_dispatch_api_silent gauge
chatclub_dispatch_api_silent 0
# HELP chatclub_dispatch_calls_limit Most calls in flight at the moment: MAX_IN_FLIGHT, or fewer where LATENCY_TARGET is exceeded.
# TYPE chatclub_dispatch_calls_limit gauge
chatclub_dispatch_calls_limit 512
# HELP chatclub_dispatch_calls_max MAX_IN_FLIGHT.
# TYPE chatclub_dispatch_calls_max gauge
chatclub_dispatch_calls_max 512
# HELP chatclub_dispatch_dead_total Messages moved to the dead-letter queue.
# TYPE chatclub_dispatch_dead_total counter
chatclub_dispatch_dead_total{reason="ambiguous"} 1
chatclub_dispatch_dead_total{reason="bad_message"} 1
chatclub_dispatch_dead_total{reason="exhausted"} 0
chatclub_dispatch_dead_total{reason="expired"} 1
chatclub_dispatch_dead_total{reason="failing"} 0
chatclub_dispatch_dead_total{reason="gone"} 1
chatclub_dispatch_dead_total{reason="not_ours"} 1
chatclub_dispatch_dead_total{reason="page_stopped"} 0
chatclub_dispatch_dead_total{reason="undecodable"} 0
chatclub_dispatch_dead_total{reason="window_closed"} 1
# HELP chatclub_dispatch_delayed_total Messages moved to a retry queue, from which they come back.
# TYPE chatclub_dispatch_delayed_total counter
chatclub_dispatch_delayed_total 2
# HELP chatclub_dispatch_given_up_total Partitions given up, with their lanes: to a replica with a higher priority (outranked), for this one's own priority (rank), because something was held for long, after a pause of the process, because the API is silent, at the stop, because something waited without a reason that holds.
# TYPE chatclub_dispatch_given_up_total counter
chatclub_dispatch_given_up_total{reason="held"} 0
chatclub_dispatch_given_up_total{reason="outranked"} 0
chatclub_dispatch_given_up_total{reason="paused"} 0
chatclub_dispatch_given_up_total{reason="rank"} 0
chatclub_dispatch_given_up_total{reason="silent"} 0
chatclub_dispatch_given_up_total{reason="stop"} 0
chatclub_dispatch_given_up_total{reason="unexplained"} 0
# HELP chatclub_dispatch_held Messages in hand: in calls, waiting, or on their way to another queue.
# TYPE chatclub_dispatch_held gauge
chatclub_dispatch_held 0
# HELP chatclub_dispatch_in_flight Calls in flight.
# TYPE chatclub_dispatch_in_flight gauge
chatclub_dispatch_in_flight 0
# HELP chatclub_dispatch_joined_total Messages that went out in another's call: texts that had to wait for the same recipient.
# TYPE chatclub_dispatch_joined_total counter
chatclub_dispatch_joined_total 1
# HELP chatclub_dispatch_lanes Lanes of this replica that pages in excess have.
# TYPE chatclub_dispatch_lanes gauge
chatclub_dispatch_lanes 0
# HELP chatclub_dispatch_overflowed_total Messages moved to their page's lane.
# TYPE chatclub_dispatch_overflowed_total counter
chatclub_dispatch_overflowed_total 0
# HELP chatclub_dispatch_pages_in_excess Pages whose messages go to their lane.
# TYPE chatclub_dispatch_pages_in_excess gauge
chatclub_dispatch_pages_in_excess 0
# HELP chatclub_dispatch_pages_paused Pages that operators have paused: their messages wait. Every dispatcher counts all.
# TYPE chatclub_dispatch_pages_paused gauge
chatclub_dispatch_pages_paused 0
# HELP chatclub_dispatch_pages_sick Pages whose calls fail or hang, so that they are probed.
# TYPE chatclub_dispatch_pages_sick gauge
chatclub_dispatch_pages_sick 0
# HELP chatclub_dispatch_pages_suspended Pages that nothing is sent to: they have no token or permission, or are blocked for a time.
# TYPE chatclub_dispatch_pages_suspended gauge
chatclub_dispatch_pages_suspended 0
# HELP chatclub_dispatch_passed_total Messages of the queue for all pages that went on to their page's partition.
# TYPE chatclub_dispatch_passed_total counter
chatclub_dispatch_passed_total 0
# HELP chatclub_dispatch_pages_waiting Pages and classes whose messages wait for a call to end, because too few are free.
# TYPE chatclub_dispatch_pages_waiting gauge
chatclub_dispatch_pages_waiting 0
# HELP chatclub_dispatch_partitions Partitions that were delivered here lately.
# TYPE chatclub_dispatch_partitions gauge
chatclub_dispatch_partitions 0
# HELP chatclub_dispatch_probes_total Calls made to find out whether more is possible: of a page that a refusal closed, of an API or page that is sick, of a suspended page.
# TYPE chatclub_dispatch_probes_total counter
chatclub_dispatch_probes_total{kind="api"} 1
chatclub_dispatch_probes_total{kind="page"} 3
chatclub_dispatch_probes_total{kind="suspended"} 1
# HELP chatclub_dispatch_recipients_failing Recipients whose messages failed lately.
# TYPE chatclub_dispatch_recipients_failing gauge
chatclub_dispatch_recipients_failing 0
# HELP chatclub_dispatch_refused_app_total Calls that the app's limit refused.
# TYPE chatclub_dispatch_refused_app_total counter
chatclub_dispatch_refused_app_total 1
# HELP chatclub_dispatch_refused_total Calls that a page's limit refused.
# TYPE chatclub_dispatch_refused_total counter
chatclub_dispatch_refused_total 3
# HELP chatclub_dispatch_repeats_total Messages that came again though this replica has sent them lately, and were not sent again.
# TYPE chatclub_dispatch_repeats_total counter
chatclub_dispatch_repeats_total 0
# HELP chatclub_dispatch_retries_total Failed calls whose messages are tried again.
# TYPE chatclub_dispatch_retries_total counter
chatclub_dispatch_retries_total{outcome="not_allowed"} 0
chatclub_dispatch_retries_total{outcome="page_stopped"} 4
chatclub_dispatch_retries_total{outcome="page_stopped_for_a_time"} 0
chatclub_dispatch_retries_total{outcome="recipient_throttled"} 1
chatclub_dispatch_retries_total{outcome="transient"} 4
# HELP chatclub_dispatch_returned_total Messages that went back to their queue, because it was given up.
# TYPE chatclub_dispatch_returned_total counter
chatclub_dispatch_returned_total 0
# HELP chatclub_dispatch_sent_total Messages that the Send API took, those in joined calls included.
# TYPE chatclub_dispatch_sent_total counter
chatclub_dispatch_sent_total 10
# HELP chatclub_dispatch_stale_total Messages whose connection was lost: they are delivered again.
# TYPE chatclub_dispatch_stale_total counter
chatclub_dispatch_stale_total 0
# HELP chatclub_dispatch_taken_total Messages taken off partitions and lanes. Each ends as sent, overflowed, delayed, dead, returned, stale, stray, repeat or passed on.
# TYPE chatclub_dispatch_taken_total counter
chatclub_dispatch_taken_total 18
`
		var names []string
		for line := range strings.Lines(want) {
			if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
				names = append(names, strings.Fields(name)[0])
			}
		}
		if err := testutil.GatherAndCompare(r.only().reg, strings.NewReader(want), names...); err != nil {
			t.Error(err)
		}
		families, err := r.only().reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		observed := map[string]uint64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if h := m.GetHistogram(); h != nil {
					name := strings.TrimPrefix(f.GetName(), "chatclub_dispatch_")
					for _, l := range m.GetLabel() {
						name += " " + l.GetValue()
					}
					observed[name] = h.GetSampleCount()
				}
			}
		}
		if diff := cmp.Diff(map[string]uint64{
			"message_age_seconds": 10, "pace_error_seconds": 3, "queue_age_seconds partition": 18, "queue_age_seconds lane": 0, "queue_age_seconds all": 0,
		}, observed); diff != "" {
			t.Errorf("observations (-want +got):\n%s", diff)
		}
	})
}

// wantGauges checks gauges of the one replica.
func (r *rig) wantGauges(t *testing.T, when string, want map[string]float64) {
	t.Helper()
	families, err := r.only().reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "chatclub_dispatch_")
		if _, ok := want[name]; ok {
			got[name] = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gauges %s (-want +got):\n%s", when, diff)
	}
}

// The gauges show the states that alerts are about, for as long as they last.
func TestStateGauges(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.MaxInFlight, c.Random = 4, half }, func(t *testing.T, r *rig) {
		r.latency = func(o message.Outbound) time.Duration {
			if strings.HasPrefix(o.Page, "hangs") {
				return 10 * time.Second
			}
			return time.Second
		}
		refused := map[string]bool{}
		r.script(func(o message.Outbound, _ int) sender.Result {
			if strings.HasPrefix(o.Page, "app") && !refused[o.Page] {
				refused[o.Page] = true
				return fail(sender.AppThrottled)
			}
			return sender.Result{}
		})
		want := func(when string, inFlight, waiting, silent, open float64) {
			t.Helper()
			r.wantGauges(t, when, map[string]float64{
				"in_flight": inFlight, "pages_waiting": waiting, "api_silent": silent, "api_breaker_open": open,
			})
		}
		for p := range 3 {
			r.text(fmt.Sprint("page", p), guests("u", 4)...)
		}
		r.sleep(500 * time.Millisecond)
		want("while three pages need twelve calls and four are possible", 3, 3, 0, 0) // the last is for a page without any
		r.sleep(5 * time.Second)
		want("when all is sent", 0, 0, 0, 0)
		r.only().inspect(func(e *engine) { e.Sender = speechless{client{r.platform, 0}} })
		r.text("hangs", "u")
		r.text("hangs-too", "u")
		r.sleep(9 * time.Second)
		want("while calls of two pages hang", 2, 0, 1, 0)
		r.sleep(5 * time.Second)
		want("when they were answered", 0, 0, 0, 0)
		r.sleep(5 * time.Second)
		r.text("app", "u")
		r.text("app-too", "u")
		r.sleep(1500 * time.Millisecond)
		want("after the app was refused", 0, 0, 0, 1)
		r.sleep(5 * time.Second)
		want("when a probe was accepted", 0, 0, 0, 0)
	})
}

// The admin port shows the pages that are in excess or suspended, and resumes
// these.
func TestPagesHandler(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(c *Config) { c.Prefetch, c.Random = 64, half }, func(t *testing.T, r *rig) {
		r.limits = func(string, message.Class) int { return 300 }
		r.script(func(o message.Outbound, _ int) sender.Result {
			if o.Page == "stopped" {
				return fail(sender.PageStopped)
			}
			return sender.Result{}
		})
		suspended := time.Now()
		r.text("stopped", "u", "v")
		r.sleep(time.Second)
		r.text("busy", guests("u", 2000)...)
		r.sleep(time.Second)
		h := r.only().PagesHandler()
		get := func() (answer Status) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/pages", nil))
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("GET /pages = %d %q, %v", w.Code, w.Body, err)
			}
			return answer
		}
		answer := get()
		if len(answer.Suspended) != 1 || answer.Suspended[0].Page != "stopped" || answer.Suspended[0].Code != "7" ||
			answer.Suspended[0].ProbeAt.Sub(suspended).Round(time.Second) != 3*time.Second { // one failed after a second
			t.Errorf("suspended = %+v, want the stopped page, with its code and probe", answer.Suspended)
		}
		if len(answer.Pages) != 2 || answer.Pages[1].Page != "stopped" {
			t.Fatalf("pages = %+v, want the one in excess and then the other", answer.Pages)
		}
		if b := answer.Pages[0]; b.Page != "busy" || b.Class != "text" || b.Since == nil || b.Limit != 300 || b.Pace < 250 || b.Waiting < 1000 || b.Oldest < 0.9 ||
			b.Arrived != 2000 || b.Sent < 200 || b.Sent != b.Calls || b.Waited <= 0 {
			t.Errorf("first page = %+v, want the page in excess at some 294/s, more than 1,000 of 2,000 waiting for a second", b)
		}
		found, _ := r.only().messages(t.Context(), wanted{id: "busy/m1"})
		lanes := found.Lanes
		if want := r.lanesOf("busy"); len(want) != 1 || !slices.Equal(answer.Pages[0].Lanes, want) || !slices.Equal(lanes, want) {
			t.Errorf("lanes = %v and, of a message, %v, want %v", answer.Pages[0].Lanes, lanes, want)
		}
		if answer.Limit == 0 || len(answer.Partitions) == 0 {
			t.Errorf("status = %+v, want the calls that are possible and the partitions", answer)
		}
		r.script(nil)
		for _, row := range []struct {
			method, path string
			status       int
		}{
			{"POST", "/pages/q/pause", 204},
			{"POST", "/pages/stopped/resume", 204},
			{"PUT", "/pages/q/limits", 400},
			{"GET", "/pages/stopped", 404},
			{"POST", "/pages", 405},
		} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), row.method, row.path, nil))
			if w.Code != row.status {
				t.Errorf("%s %s = %d, want %d", row.method, row.path, w.Code, row.status)
			}
		}
		r.sleep(time.Second)
		if answer = get(); len(answer.Suspended) != 0 || len(answer.Paused) != 1 || answer.Paused[0].Page != "q" {
			t.Errorf("status = %+v, want the page that was paused, and none that is suspended", answer)
		}
		r.sleep(2 * time.Minute)
		if answer = get(); len(answer.Pages) != 0 || len(answer.Suspended) != 0 {
			t.Errorf("pages = %+v, want none a minute after all is sent and resumed", answer)
		}
		r.stop(r.only())
		began, w := time.Now(), httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/pages", nil))
		if w.Code != 503 || !strings.Contains(w.Body.String(), errBusy.Error()) || time.Since(began) != askTimeout {
			t.Errorf("GET /pages of one that ended = %d %s after %v, want 503 after %v", w.Code, w.Body, time.Since(began), askTimeout)
		}
	})
}
