package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/sender"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is a scripted Send API: answer decides, latency passes first.
type api struct {
	latency time.Duration
	answer  func(out message.Outbound, call int) sender.Outcome // call counts from 1 per id

	mu       sync.Mutex
	calls    map[string]int
	began    int64    // when the latest call did, Unix milliseconds
	sent     []string // ids in the order in which they were accepted
	inFlight int
	most     int
}

func (a *api) Send(ctx context.Context, out message.Outbound) sender.Result {
	a.mu.Lock()
	if a.calls == nil {
		a.calls = make(map[string]int)
	}
	a.calls[out.ID]++
	a.began = time.Now().UnixMilli()
	call := a.calls[out.ID]
	a.inFlight++
	a.most = max(a.most, a.inFlight)
	a.mu.Unlock()

	select {
	case <-time.After(a.latency):
	case <-ctx.Done():
		a.mu.Lock()
		defer a.mu.Unlock()
		a.inFlight--
		return sender.Result{Outcome: sender.Canceled, Err: ctx.Err()}
	}
	o := sender.Sent
	if a.answer != nil {
		o = a.answer(out, call)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight--
	if o == sender.Sent {
		a.sent = append(a.sent, out.ID)
		return sender.Result{Outcome: o}
	}
	return sender.Result{Outcome: o, Code: 7, Err: errors.New("scripted")}
}

func (a *api) accepted() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.sent...)
}

// callsFor is how many calls were made for a message.
func (a *api) callsFor(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[id]
}

type rig struct {
	*Dispatcher
	broker *memory.Broker
	reg    *prometheus.Registry
	cancel context.CancelFunc
	done   chan error
}

// newBroker is an empty broker.
func newBroker(t *testing.T, lanes int) *memory.Broker {
	t.Helper()
	return memorytest.New(t, queue.Topology{Prefix: "t", Lanes: lanes})
}

// start runs a dispatcher in the test's bubble. change adjusts its configuration.
func start(t *testing.T, a Caller, change func(*Config)) *rig {
	t.Helper()
	return startOn(t, newBroker(t, 1), a, change)
}

func testConfig(b *memory.Broker, a Caller) Config {
	return Config{
		Broker: b, Sender: a, Gate: excess.New(excess.Config{Limit: func(string) float64 { return 1e6 }, LaneHold: 512}, time.Now()),
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Prefetch: 512, MaxInFlight: 64, MaxAttempts: 4, MessageTTL: time.Hour, ShutdownTimeout: 10 * time.Second,
	}
}

// startOn runs a dispatcher on a broker that it shares with others.
func startOn(t *testing.T, b *memory.Broker, a Caller, change func(*Config)) *rig {
	t.Helper()
	r := &rig{broker: b, reg: prometheus.NewRegistry(), done: make(chan error, 1)}
	cfg := testConfig(b, a)
	cfg.Registerer = r.reg
	if change != nil {
		change(&cfg)
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Dispatcher = d
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.done <- r.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

func (r *rig) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
}

func (r *rig) publish(t *testing.T, outs ...message.Outbound) {
	t.Helper()
	r.publishTo(t, r.broker.Topology().Outbound(), outs...)
}

func (r *rig) publishTo(t *testing.T, name string, outs ...message.Outbound) {
	t.Helper()
	for _, o := range outs {
		body, err := o.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.broker.Publish(t.Context(), queue.Message{Queue: name, ID: o.ID, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
}

// drain returns what waits in a queue.
func (r *rig) drain(t *testing.T, name string) []queue.Message {
	t.Helper()
	return memorytest.Drain(t, r.broker, name)
}

func msg(page, to string, n int) message.Outbound {
	return message.Outbound{
		ID: message.CopyID(page, fmt.Sprintf("m%d", n), to, 0), Page: page, To: to,
		Class: message.ClassText, Text: "hi", Time: time.Now().UnixMilli(),
	}
}

// Every outcome once: what is left on which queue, and how many calls it cost.
func TestOutcomeSettles(t *testing.T) {
	t.Parallel()
	always := func(o sender.Outcome) func(message.Outbound, int) sender.Outcome {
		return func(message.Outbound, int) sender.Outcome { return o }
	}
	once := func(o sender.Outcome) func(message.Outbound, int) sender.Outcome {
		return func(_ message.Outbound, call int) sender.Outcome {
			if call == 1 {
				return o
			}
			return sender.Sent
		}
	}
	for _, row := range []struct {
		name     string
		answer   func(message.Outbound, int) sender.Outcome
		calls    int
		sent     int
		dead     message.Reason
		attempts int
		feedback message.Reason
	}{
		{name: "sent", answer: always(sender.Sent), calls: 1, sent: 1},
		{name: "page throttled once", answer: once(sender.PageThrottled), calls: 2, sent: 1},
		{name: "app throttled once", answer: once(sender.AppThrottled), calls: 2, sent: 1},
		{name: "recipient throttled once", answer: once(sender.RecipientThrottled), calls: 2, sent: 1},
		{name: "recipient throttled always", answer: always(sender.RecipientThrottled), calls: 4, dead: message.ReasonExhausted, attempts: 4},
		{name: "transient once", answer: once(sender.Transient), calls: 2, sent: 1},
		{name: "transient always", answer: always(sender.Transient), calls: 4, dead: message.ReasonExhausted, attempts: 4},
		{name: "ambiguous", answer: always(sender.Ambiguous), calls: 1, dead: message.ReasonAmbiguous, attempts: 1},
		{name: "gone", answer: always(sender.RecipientGone), calls: 1, dead: message.ReasonGone, attempts: 1, feedback: message.ReasonGone},
		{name: "window closed", answer: always(sender.WindowClosed), calls: 1, dead: message.ReasonWindowClosed, attempts: 1, feedback: message.ReasonWindowClosed},
		{name: "not ours", answer: always(sender.NotOurs), calls: 1, dead: message.ReasonNotOurs, attempts: 1, feedback: message.ReasonNotOurs},
		{name: "bad message", answer: always(sender.BadMessage), calls: 1, dead: message.ReasonBadMessage, attempts: 1},
		{name: "page stopped", answer: always(sender.PageStopped), calls: 1, dead: message.ReasonPageStopped, attempts: 1, feedback: message.ReasonPageStopped},
		{name: "page stopped for a time", answer: always(sender.PageStoppedForATime), calls: 1, dead: message.ReasonPageStopped, attempts: 1, feedback: message.ReasonPageStopped},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &api{latency: 40 * time.Millisecond, answer: row.answer}
				r := start(t, a, nil)
				m := msg("p", "u", 1)
				m.ID = message.CopyID("p", strings.Repeat("m", 250), "u", 0) // the longest that AMQP takes
				r.publish(t, m)
				time.Sleep(time.Minute)
				r.stop(t)
				if got := a.calls[m.ID]; got != row.calls {
					t.Errorf("calls = %d, want %d", got, row.calls)
				}
				if got := len(a.accepted()); got != row.sent {
					t.Errorf("accepted = %d, want %d", got, row.sent)
				}
				if got := r.drain(t, r.broker.Topology().Outbound()); len(got) != 0 {
					t.Errorf("left on outbound = %d, want 0", len(got))
				}
				checkDead(t, r, row.dead, row.attempts)
				checkFeedback(t, r, m, row.feedback, a.began)
			})
		})
	}
}

func checkDead(t *testing.T, r *rig, reason message.Reason, attempts int) {
	t.Helper()
	dead := r.drain(t, r.broker.Topology().Dead())
	if reason == "" {
		if len(dead) != 0 {
			t.Errorf("dead letters = %d, want 0", len(dead))
		}
		return
	}
	if len(dead) != 1 {
		t.Fatalf("dead letters = %d, want 1", len(dead))
	}
	got, err := message.DeathFromHeaders(dead[0].Headers)
	if err != nil {
		t.Fatal(err)
	}
	want := message.Death{Reason: reason, Queue: "t.outbound", Attempts: attempts, FirstCode: "7", LastCode: "7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("death (-want +got):\n%s", diff)
	}
	if got := testutil.ToFloat64(r.metrics.dead.WithLabelValues(string(reason))); got != 1 {
		t.Errorf("dead_total{reason=%q} = %v, want 1", reason, got)
	}
}

// checkFeedback: core is told, as of the time of the call, under an id that
// AMQP takes.
func checkFeedback(t *testing.T, r *rig, m message.Outbound, reason message.Reason, called int64) {
	t.Helper()
	in := r.drain(t, r.broker.Topology().Inbound())
	if reason == "" {
		if len(in) != 0 {
			t.Errorf("feedback events = %d, want 0", len(in))
		}
		return
	}
	if len(in) != 1 {
		t.Fatalf("feedback events = %d, want 1", len(in))
	}
	ev, err := message.DecodeEvent(in[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	want := message.Event{Kind: message.KindFeedback, Page: m.Page, ID: ev.ID, User: m.To, Reason: string(reason), Time: called}
	if reason == message.ReasonPageStopped { // from the answer, 40 ms later
		want.Until = called + 40 + (30 * time.Minute).Milliseconds()
	}
	if len(in[0].ID) > 255 || in[0].ID != ev.ID {
		t.Errorf("message id of feedback = %q with %d bytes, want the event's %q with at most 255", in[0].ID, len(in[0].ID), ev.ID)
	}
	if diff := cmp.Diff(want, ev); diff != "" {
		t.Errorf("feedback (-want +got):\n%s", diff)
	}
}

func TestEveryOutcomeHasADisposition(t *testing.T) {
	t.Parallel()
	for _, o := range sender.Outcomes() {
		r := dispositionOf(o)
		if r.action == leave && o != sender.Canceled {
			t.Errorf("dispositionOf(%v) leaves the message, want an action", o)
		}
		if (r.action == bury || r.action == suspendPage || r.action == tryAgain) && r.reason == "" {
			t.Errorf("dispositionOf(%v) has no reason", o)
		}
	}
}

func TestOrderPerRecipientUnderRandomLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 20 * time.Millisecond, answer: func(out message.Outbound, call int) sender.Outcome {
			if call == 1 && len(out.ID)%3 == 0 {
				return sender.Transient // a retried message keeps its place
			}
			return sender.Sent
		}}
		r := start(t, a, nil)
		var want []string
		for i := range 30 {
			m := msg("p", "u", i)
			r.publish(t, m, msg("p", fmt.Sprintf("other%d", i), i))
			want = append(want, m.ID)
		}
		time.Sleep(time.Minute)
		r.stop(t)
		var got []string
		for _, id := range a.accepted() {
			if len(id) > 2 && id[len(id)-2:] == "/u" {
				got = append(got, id)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order for one recipient (-want +got):\n%s", diff)
		}
	})
}

func TestInFlightIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: time.Second}
		r := start(t, a, func(c *Config) { c.MaxInFlight = 5 })
		for i := range 50 {
			r.publish(t, msg("p", fmt.Sprintf("u%d", i), i))
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if got := len(a.accepted()); got != 50 {
			t.Errorf("accepted after 10 s = %d, want 50", got)
		}
		if a.most != 5 {
			t.Errorf("most calls in flight = %d, want 5", a.most)
		}
		r.stop(t)
	})
}

func TestPageInExcessGoesToItsLaneAndOthersPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		a := &api{latency: 40 * time.Millisecond, answer: func(out message.Outbound, _ int) sender.Outcome {
			if out.Page == "hot" && time.Since(begin) < 3*time.Second {
				return sender.PageThrottled
			}
			return sender.Sent
		}}
		r := start(t, a, nil)
		r.publish(t, msg("hot", "h0", 0))
		time.Sleep(100 * time.Millisecond)
		for i := 1; i < 100; i++ {
			r.publish(t, msg("hot", fmt.Sprintf("h%d", i), i))
		}
		for i := range 100 {
			r.publish(t, msg("cold", fmt.Sprintf("c%d", i), i))
		}
		time.Sleep(2 * time.Second)
		if got := len(a.accepted()); got != 100 {
			t.Errorf("accepted while one page is in excess = %d, want the other page's 100", got)
		}
		if got := testutil.ToFloat64(r.metrics.overflowed); got != 100 {
			t.Errorf("overflowed = %v, want the page's 100", got)
		}
		time.Sleep(time.Minute)
		r.stop(t)
		if got := len(a.accepted()); got != 200 {
			t.Errorf("accepted = %d, want 200", got)
		}
	})
}

func TestStoppedPageCostsNoCallUntilItsProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		a := &api{answer: func(message.Outbound, int) sender.Outcome {
			if time.Since(begin) < time.Hour {
				return sender.PageStopped
			}
			return sender.Sent
		}}
		r := start(t, a, nil)
		send := func(n int) {
			r.publish(t, msg("p", "u", n))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		send(1)
		send(2)
		if got := len(a.calls); got != 1 {
			t.Fatalf("messages called for = %d, want 1: the page is stopped", got)
		}
		time.Sleep(30 * time.Minute)
		send(3) // the probe, refused
		send(4)
		if got := len(a.calls); got != 2 {
			t.Fatalf("messages called for after 30 min = %d, want 2", got)
		}
		time.Sleep(time.Hour)
		send(5) // the second probe, sent: the page is open
		send(6)
		if got := len(a.accepted()); got != 2 {
			t.Errorf("accepted = %d, want 2", got)
		}
		if got := len(r.drain(t, "t.dead")); got != 4 {
			t.Errorf("dead letters = %d, want 4", got)
		}
		r.stop(t)
	})
}

func TestResumeByRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := true
		a := &api{answer: func(message.Outbound, int) sender.Outcome {
			if bad {
				return sender.PageStopped
			}
			return sender.Sent
		}}
		r := start(t, a, nil)
		r.publish(t, msg("p", "u", 1))
		time.Sleep(time.Second)
		synctest.Wait()
		bad = false
		h := r.PagesHandler()
		for _, row := range []struct {
			method, path string
			status       int
		}{
			{"GET", "/pages", 200},
			{"POST", "/pages/q/resume", 404},
			{"POST", "/pages/p/resume", 204},
			{"POST", "/pages/p/resume", 404},
		} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(row.method, row.path, nil))
			if w.Code != row.status {
				t.Errorf("%s %s = %d, want %d", row.method, row.path, w.Code, row.status)
			}
		}
		r.publish(t, msg("p", "u", 2))
		time.Sleep(time.Second)
		if got := len(a.accepted()); got != 1 {
			t.Errorf("accepted = %d, want 1", got)
		}
		r.stop(t)
	})
}

func TestOutageHoldsEverythingAndLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		calls := 0
		a := &api{latency: 5 * time.Millisecond}
		a.answer = func(message.Outbound, int) sender.Outcome {
			if time.Since(begin) < 10*time.Minute {
				a.mu.Lock()
				calls++
				a.mu.Unlock()
				return sender.Transient
			}
			return sender.Sent
		}
		r := start(t, a, nil)
		for i := range 200 {
			r.publish(t, msg("p", fmt.Sprintf("u%d", i), i))
		}
		time.Sleep(5 * time.Minute)
		if r.Ready() == nil {
			t.Error("Ready() during an outage = nil, want an error")
		}
		time.Sleep(7 * time.Minute)
		if err := r.Ready(); err != nil {
			t.Errorf("Ready() after the outage = %v, want nil", err)
		}
		r.stop(t)
		if got := len(a.accepted()); got != 200 {
			t.Errorf("accepted = %d, want 200", got)
		}
		// 64 in flight at the onset, then one probe in at most 1.5 × 30 s, at
		// least one in each doubling before.
		if calls > 64+64 {
			t.Errorf("calls during ten minutes of outage = %d, want at most 128", calls)
		}
	})
}

func TestExpiredAndUndecodableCostNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		r := start(t, a, nil)
		old := msg("p", "u", 1)
		old.Time = time.Now().Add(-time.Hour - time.Second).UnixMilli()
		r.publish(t, old)
		for i, body := range []string{"", "{", `{"id":"x"}`, "\xff\x00"} {
			if err := r.broker.Publish(t.Context(), queue.Message{Queue: "t.outbound", ID: fmt.Sprint(i), Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		r.stop(t)
		got := map[message.Reason]int{}
		for _, m := range r.drain(t, "t.dead") {
			d, err := message.DeathFromHeaders(m.Headers)
			if err != nil {
				t.Fatal(err)
			}
			got[d.Reason]++
		}
		want := map[message.Reason]int{message.ReasonExpired: 1, message.ReasonUndecodable: 4}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dead by reason (-want +got):\n%s", diff)
		}
		if len(a.calls) != 0 {
			t.Errorf("calls = %v, want none", a.calls)
		}
	})
}

func TestStopFinishesCallsAndHandsBackTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 2 * time.Second}
		r := start(t, a, func(c *Config) { c.MaxInFlight = 10 })
		for i := range 30 {
			r.publish(t, msg("p", fmt.Sprintf("u%d", i), i))
		}
		time.Sleep(time.Second)
		began := time.Now()
		r.stop(t)
		if got, want := time.Since(began), time.Second; got != want {
			t.Errorf("stopping took %v, want %v", got, want)
		}
		if got := len(a.accepted()); got != 10 {
			t.Errorf("accepted = %d, want the 10 in flight", got)
		}
		if got := len(r.drain(t, "t.outbound")); got != 20 {
			t.Errorf("handed back = %d, want 20", got)
		}
	})
}

func TestStopIsBoundedByItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: time.Hour}
		r := start(t, a, nil)
		r.publish(t, msg("p", "u", 1))
		time.Sleep(time.Second)
		began := time.Now()
		r.stop(t)
		if got := time.Since(began); got != 10*time.Second {
			t.Errorf("stopping took %v, want the timeout of 10s", got)
		}
		if got := len(r.drain(t, "t.outbound")); got != 1 {
			t.Errorf("handed back = %d, want 1", got)
		}
	})
}

func TestConfigNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := New(Config{})
	if err == nil {
		t.Fatal("New(Config{}) = nil error")
	}
	for _, name := range []string{"Broker", "Sender", "Gate", "Log", "Registerer", "Prefetch", "MaxInFlight", "MaxAttempts", "MessageTTL", "ShutdownTimeout"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("New(Config{}) = %q, does not name %s", err, name)
		}
	}
}
