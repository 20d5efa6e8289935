package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// callerFunc is a Send API in one function.
type callerFunc func(ctx context.Context, out message.Outbound) sender.Result

func (f callerFunc) Send(ctx context.Context, out message.Outbound) sender.Result { return f(ctx, out) }

func (r *rig) givenUpFor(reason string) float64 {
	return testutil.ToFloat64(r.metrics.givenUp.WithLabelValues(reason))
}

// A replica whose calls for one page hang, while the API answers for others,
// sends nothing more for the page after five seconds, and gives its lane up when
// the calls have ended: another replica sends what is on it, in order.
func TestStuckLaneIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, 1)
		var hung atomic.Int64
		first := startOn(t, b, callerFunc(func(ctx context.Context, out message.Outbound) sender.Result {
			if out.Page != "hot" {
				return sender.Result{Outcome: sender.Sent}
			}
			hung.Add(1)
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
			}
			return sender.Result{Outcome: sender.Transient, Err: errors.New("no answer")}
		}), nil)
		time.Sleep(2 * time.Second) // every lane is subscribed to by then
		synctest.Wait()
		other := &api{latency: 40 * time.Millisecond}
		second := startOn(t, b, other, nil)
		time.Sleep(2 * time.Second)

		var want []string
		hang := func(n int) {
			for range n {
				i := len(want)
				m := msg("hot", fmt.Sprintf("h%d", i%5), i)
				first.publishTo(t, b.Topology().Lane(0), m)
				want = append(want, m.ID)
			}
		}
		live := func(seconds int) { // the API answers, so it is the lane that is stuck
			for range seconds {
				time.Sleep(time.Second)
				first.publish(t, msg("cold", "c", int(time.Now().UnixMilli())))
			}
			synctest.Wait()
		}
		hang(4)
		live(4)
		hang(1) // a fifth recipient: the lane is not given up yet
		live(1)
		if got := hung.Load(); got != 5 {
			t.Errorf("calls that hang = %d, want one for each of 5 recipients", got)
		}
		live(2)
		hang(15)
		m := msg("hot", "h5", 20) // a recipient without a call: it would be sent to at once
		first.publishTo(t, b.Topology().Lane(0), m)
		want = append(want, m.ID)
		live(6) // 13 s: the fifth call is still out
		if got := first.givenUpFor("stuck"); got != 0 {
			t.Errorf("lanes given up while a call is in flight = %v, want 0", got)
		}
		live(3)
		if got := first.givenUpFor("stuck"); got != 1 {
			t.Errorf("lanes given up after 16 s = %v, want 1", got)
		}
		checkSentInOrder(t, other, "hot", want)

		time.Sleep(time.Minute)
		first.stop(t)
		second.stop(t)
		if got := testutil.ToFloat64(first.metrics.stale); got != 21 {
			t.Errorf("stale deliveries of the lane that was given up = %v, want all 21", got)
		}
		if got := hung.Load(); got != 5 {
			t.Errorf("calls for the page after its lane was given up = %d, want none", got-5)
		}
		for _, name := range []string{b.Topology().Outbound(), b.Topology().Lane(0), b.Topology().Dead()} {
			if got := second.drain(t, name); len(got) != 0 {
				t.Errorf("left on %s = %d, want 0", name, len(got))
			}
		}
	})
}

// checkSentInOrder checks that exactly the wanted messages of a page were sent,
// those to one recipient in their order.
func checkSentInOrder(t *testing.T, a *api, page string, want []string) {
	t.Helper()
	byRecipient := func(ids []string) map[string][]string {
		m := make(map[string][]string)
		for _, id := range ids {
			if parts := strings.Split(id, "/"); parts[0] == page { // page/mid/recipient
				m[parts[2]] = append(m[parts[2]], parts[1])
			}
		}
		return m
	}
	if diff := cmp.Diff(byRecipient(want), byRecipient(a.accepted())); diff != "" {
		t.Errorf("sent for page %s (-want +got):\n%s", page, diff)
	}
}

// A replica without a free call gives up the busiest lanes beyond its part of
// them, each once its calls have ended: nothing is called twice, and the two
// replicas send twice as fast as one.
func TestOverloadedReplicaGivesUpLanesBeyondItsPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lanes, each = 4, 600
		b := newBroker(t, lanes)
		a := &api{latency: 100 * time.Millisecond}
		four := func(c *Config) { c.MaxInFlight = 4 } // 40 messages a second
		first := startOn(t, b, a, four)
		time.Sleep(2 * time.Second)

		want := make(map[string][]string)
		for i, page := range pageOfEachLane(t, first) {
			for n := range each {
				m := msg(page, fmt.Sprintf("u%d", n%10), n)
				first.publishTo(t, b.Topology().Lane(i), m)
				want[page] = append(want[page], m.ID)
			}
		}
		time.Sleep(time.Second) // an owner's first message waits for up to a moment
		alone := len(a.accepted())
		time.Sleep(6 * time.Second)
		if got := first.givenUpFor("overloaded"); got != 0 {
			t.Errorf("lanes given up by the only replica = %v, want 0", got)
		}
		alone = len(a.accepted()) - alone

		second := startOn(t, b, a, func(c *Config) {
			four(c)
			c.Random = func() float64 { return 0 } // subscribes to every lane at once, before one is given up
		})
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if got := first.givenUpFor("overloaded"); got != 2 {
			t.Errorf("lanes given up with a second replica = %v, want 2 of 4", got)
		}
		if got := second.givenUpFor("overloaded"); got != 0 {
			t.Errorf("lanes given up by the second replica = %v, want 0: it has its part", got)
		}
		for i, r := range []*rig{first, second} {
			if got := testutil.ToFloat64(r.metrics.lanes); got != 2 {
				t.Errorf("lanes owned by replica %d = %v, want 2", i, got)
			}
		}
		before := len(a.accepted())
		time.Sleep(6 * time.Second)
		if got := len(a.accepted()) - before; alone != 240 || got < 475 { // a call that begins at the last moment ends after it
			t.Errorf("sent in 6 s = %d by one replica and %d by two, want 240 and 480", alone, got)
		}

		time.Sleep(time.Minute)
		first.stop(t)
		second.stop(t)
		for page, ids := range want {
			checkSentInOrder(t, a, page, ids)
		}
		for id, n := range a.calls {
			if n != 1 {
				t.Errorf("calls for %s = %d, want 1", id, n)
			}
		}
	})
}

// pageOfEachLane is a page for each lane, in the lanes' order.
func pageOfEachLane(t *testing.T, r *rig) []string {
	t.Helper()
	top := r.broker.Topology()
	pages := make([]string, top.Lanes)
	for i, found := 0, 0; found < len(pages); i++ {
		page := fmt.Sprintf("p%d", i)
		for lane := range pages {
			if pages[lane] == "" && top.LaneOf(page) == top.Lane(lane) {
				pages[lane] = page
				found++
			}
		}
	}
	return pages
}
