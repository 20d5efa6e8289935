package demo

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/internal/app"
	"chatclub/internal/console"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/service"
)

// rig is a crew on a queue in memory before the fake, in virtual time.
type rig struct {
	t      *testing.T
	api    *fakeapi.API
	broker *memory.Broker
	crew   *Crew
	divert *Divert
	reg    *prometheus.Registry
	n      int
}

// kept is the broker for one of many.
type kept struct{ queue.Broker }

func (kept) Close() error { return nil }

func inBubble(t *testing.T, dispatchers int, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set := fakeapi.DefaultSettings()
		set.Latency = fakeapi.Latency{}
		api, err := fakeapi.New(fakeapi.Config{Settings: &set})
		if err != nil {
			t.Fatal(err)
		}
		if err := api.Patch([]byte(`{"latency":"fixed:50ms"}`)); err != nil {
			t.Fatal(err)
		}
		broker, err := memory.New(queue.Topology{Prefix: "t", Partitions: 8, WithShared: true})
		if err != nil {
			t.Fatal(err)
		}
		divert := &Divert{Broker: kept{broker}}
		s := service.Defaults[app.DispatcherSettings]()
		s.GraphURL, s.Prefetch, s.JoinTexts = "http://fakeapi/v23.0", 256, 1
		r := &rig{t: t, api: api, broker: broker, divert: divert, reg: prometheus.NewRegistry()}
		r.crew = NewCrew(CrewConfig{
			Settings: s, Connect: func(string, prometheus.Registerer) (queue.Broker, error) { return kept{broker}, nil },
			Platform: api.Transport(), Tokens: api, Registry: r.reg, Log: slog.New(slog.DiscardHandler),
		})
		if _, err := r.crew.Add(t.Context(), dispatchers); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.crew.Run(ctx) }()
		f(t, r)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if err := broker.Close(); err != nil {
			t.Error(err)
		}
	})
}

// newText returns the n-th text for a page, as it is published, and as the ledger
// expects it.
func newText(t *testing.T, top queue.Topology, page string, n int) (queue.Message, ledger.Expected) {
	t.Helper()
	out := message.Outbound{
		ID: fmt.Sprintf("%s/m/%d", page, n), Page: page, To: strconv.Itoa(1_000_000 + n), Class: message.ClassText,
		Text: "hello", Time: time.Now().UnixMilli(),
	}
	body, err := out.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return queue.Message{Queue: top.OutboundOf(page), ID: out.ID, Body: body}, ledger.Expected{ID: out.ID, Recipient: out.To}
}

// beside runs f until stop is called, which waits for its end.
func beside(t *testing.T, f func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	return func() { cancel(); <-done }
}

// publish publishes n texts for a page, by way of core's connection.
func (r *rig) publish(page string, n int) {
	r.t.Helper()
	var ids []ledger.Expected
	var msgs []queue.Message
	for range n {
		r.n++
		m, id := newText(r.t, r.broker.Topology(), page, r.n)
		ids, msgs = append(ids, id), append(msgs, m)
	}
	r.api.Ledger().Announce(page, ids...)
	if err := r.divert.Publish(r.t.Context(), msgs...); err != nil {
		r.t.Fatal(err)
	}
}

// settle waits until all that was published has arrived.
func (r *rig) settle() ledger.Counts {
	r.t.Helper()
	for range 600 {
		if r.api.Ledger().Pending() == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	c := r.api.Ledger().Totals()
	if c.Pending != 0 || c.Unexpected != 0 {
		r.t.Fatalf("a minute later %d copies are missing, %d unexpected", c.Pending, c.Unexpected)
	}
	return c
}

// owner returns the dispatcher of the page's next accepted message.
func (r *rig) owner(page string) string {
	r.t.Helper()
	by, forget := r.crew.NextSend(page, "")
	defer forget()
	select {
	case name := <-by:
		return name
	case <-time.After(time.Minute):
		r.t.Fatal("nothing was sent for a minute")
		return ""
	}
}

// TestKill: the owner of a page in excess is killed. Another takes the page over
// soon, nothing is lost, and doubled copies were in flight.
func TestKill(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, r *rig) {
		page := fakeapi.PageID(1)
		time.Sleep(2 * time.Second)
		r.publish(page, 1500)
		first := r.owner(page)
		time.Sleep(2*time.Second + 10*time.Millisecond)
		resumed, forget := r.crew.NextSend(page, first)
		defer forget()
		at := time.Now()
		inFlight, err := r.crew.Kill(first)
		if err != nil || inFlight == 0 {
			t.Fatalf("Kill() = %d, %v, want some in flight", inFlight, err)
		}
		if by := <-resumed; by == first || time.Since(at) > 2*time.Second {
			t.Errorf("the page is %s's after %v, want another's within 2 s", by, time.Since(at))
		}
		if _, err := r.crew.Kill(first); err == nil {
			t.Error("Kill() of a dead one = nil, want an error")
		}
		if c := r.settle(); c.Duplicated > int64(2*inFlight+untold) {
			t.Errorf("%d doubled with %d in flight", c.Duplicated, inFlight)
		}
		if got := len(r.crew.Active()); got != 2 {
			t.Errorf("%d dispatchers work, want 2", got)
		}
		time.Sleep(goneTime)
		if got := r.crew.Replicas(t.Context()); len(got) != 2 {
			t.Errorf("replicas = %+v, want the dead one gone", got)
		}
	})
}

// TestHang: one whose calls hang gives its page up, and serves again afterwards.
func TestHang(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(t *testing.T, r *rig) {
		page := fakeapi.PageID(1)
		time.Sleep(2 * time.Second)
		r.publish(page, 1800)
		first := r.owner(page)
		resumed, forget := r.crew.NextSend(page, first)
		defer forget()
		resume, err := r.crew.Hang(first)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(r.crew.Replicas(t.Context()), func(x console.Replica) bool { return x.Name == first && x.State == hung }); i < 0 {
			t.Error("it is not shown as hung")
		}
		<-resumed
		resume()
		if c := r.settle(); c.Duplicated != 0 {
			t.Errorf("%d doubled, want none: no call was made", c.Duplicated)
		}
		if len(r.crew.Active()) != 2 {
			t.Error("it does not work again")
		}
	})
}

// TestAddRemove: dispatchers come and go cleanly.
func TestAddRemove(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, r *rig) {
		names, err := r.crew.Add(t.Context(), 2)
		if err != nil || !slices.Equal(names, []string{"D2", "D3"}) {
			t.Fatalf("Add(2) = %v, %v", names, err)
		}
		time.Sleep(2 * time.Second)
		if err := r.crew.Ready(t.Context()); err != nil {
			t.Errorf("Ready() = %v, want nil", err)
		}
		for i := range 6 {
			r.publish(fakeapi.PageID(i), 300)
		}
		time.Sleep(200 * time.Millisecond)
		if err := r.crew.Remove("D1"); err != nil {
			t.Errorf("Remove() = %v, want nil", err)
		}
		if err := r.crew.Remove("D1"); err == nil {
			t.Error("Remove() of one that is gone = nil, want an error")
		}
		if c := r.settle(); c.Duplicated != 0 {
			t.Errorf("%d doubled, want none", c.Duplicated)
		}
		if _, err := r.crew.Add(t.Context(), MaxDispatchers); err == nil {
			t.Error("Add() of too many = nil, want an error")
		}
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		programs := map[string]bool{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "program" {
						programs[l.GetValue()] = true
					}
				}
			}
		}
		if programs["D1"] || !programs["D2"] || !programs["D3"] {
			t.Errorf("metrics are of %v, want D2 and D3", programs)
		}
	})
}

// TestArticle: the same dispatchers work the article's way, with the backlog, which
// refuses far more calls; and ours again, without losing anything.
func TestArticle(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, r *rig) {
		page := fakeapi.PageID(1)
		time.Sleep(2 * time.Second)
		r.publish(page, 900)
		time.Sleep(time.Second)
		before := r.crew.Active()
		r.divert.Set(true)
		if err := r.crew.Switch(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if !r.crew.Article() || !slices.Equal(r.crew.Active(), before) {
			t.Errorf("%v work, want %v, the article's way", r.crew.Active(), before)
		}
		stop := beside(t, func(ctx context.Context) { r.divert.Gather(ctx) })
		start := r.api.Ledger().Totals()
		r.publish(page, 500)
		time.Sleep(2 * time.Second)
		stop()
		r.divert.Set(false)
		if err := r.crew.Switch(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		theirs := r.api.Ledger().Totals()
		if calls, refused := theirs.Calls-start.Calls, theirs.Refused-start.Refused; refused < calls {
			t.Errorf("the article's way: %d refused of %d accepted, want more", refused, calls)
		}
		stop = beside(t, r.divert.Forward)
		ours := r.settle()
		stop()
		if refused := ours.Refused - theirs.Refused; refused > 60 {
			t.Errorf("ours again: %d refused, want hardly any", refused)
		}
		if ours.Duplicated != 0 {
			t.Errorf("%d doubled, want none", ours.Duplicated)
		}
	})
}

// TestReceipts: they are the latest, can be written again, and markers are in order.
func TestReceipts(t *testing.T) {
	t.Parallel()
	var r receipts
	for i := range keptReceipts + 5 {
		r.begin(fmt.Sprint("begun ", i), "mark", "")
	}
	n := r.begin("killed …", "D1 killed", "7")
	r.write(n, "killed: 0 lost.", "calm", true)
	r.write(1, "forgotten", "calm", true)
	list := r.Receipts()
	if len(list) != keptReceipts || list[0].N != n || list[0].Text != "killed: 0 lost." || !list[0].Done || list[1].Done {
		t.Errorf("receipts = %+v, want the last %d, the latest first and done", list, keptReceipts)
	}
	if m := r.Markers(); m[len(m)-1].Text != "D1 killed" || m[len(m)-1].Page != "7" {
		t.Errorf("markers = %+v, want the latest last", m)
	}
}
