package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// broadcast is n messages of one broadcast to as many people.
func broadcast(id, page string, n int) []message.Outbound {
	outs := make([]message.Outbound, n)
	for i := range outs {
		outs[i] = msg(page, fmt.Sprintf("%s-%d", id, i), i)
		outs[i].Broadcast = id
	}
	return outs
}

// sentOf is how many messages of a broadcast were sent.
func sentOf(a *api, id string) (n int) {
	for _, sent := range a.accepted() {
		if strings.Contains(sent, "/"+id+"-") {
			n++
		}
	}
	return n
}

// limited is a dispatcher whose pages have 20 calls a second, of which it uses
// 19.6.
func limited(t *testing.T, a *api) *rig {
	t.Helper()
	return start(t, a, func(c *Config) {
		c.Gate = excess.New(excess.Config{Limit: func(string) float64 { return 20 }, LaneHold: 512}, time.Now())
	})
}

// talk is n messages of conversations on a page.
func (r *rig) talk(t *testing.T, page, name string, n int) (ids []string) {
	t.Helper()
	for i := range n {
		m := msg(page, fmt.Sprint(name, i), i)
		ids = append(ids, m.ID)
		r.publish(t, m)
	}
	return ids
}

// A message that waits for its page holds nobody up: not its recipient's
// conversation, nor its page's.
func TestConversationIsNotBehindABroadcast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 40 * time.Millisecond}
		r := limited(t, a)
		time.Sleep(5 * time.Second)
		r.talk(t, "p", "u", 30) // 19 at once, and 11 that wait
		synctest.Wait()
		news := broadcast("news", "p", 10)
		r.publishTo(t, r.broker.Topology().Bulk(), news...)
		time.Sleep(100 * time.Millisecond)
		var replies []string
		for i, m := range news {
			reply := msg("p", m.To, 1000+i)
			replies = append(replies, reply.ID)
			r.publish(t, reply)
		}
		time.Sleep(3 * time.Second)
		got := a.accepted()
		last := slices.Index(got, replies[len(replies)-1])
		first := slices.IndexFunc(got, func(id string) bool { return strings.Contains(id, "/news-") && !slices.Contains(replies, id) })
		if len(got) != 50 || last > first {
			t.Errorf("sent = %d, the last reply as number %d and the first of the broadcast as %d, want all 50 and the reply first", len(got), last, first)
		}
		r.stop(t)
	})
}

// While conversations leave a page nothing, the broadcasts of other pages pass
// its own, which is sent afterwards, all of it and once.
func TestBroadcastOfABusyPageHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 40 * time.Millisecond}
		r := limited(t, a)
		time.Sleep(5 * time.Second)
		r.talk(t, "busy", "u", 30) // 19 at once, and 11 that wait, or as many others, from now on
		synctest.Wait()
		r.publishTo(t, r.broker.Topology().Bulk(), broadcast("busy", "busy", 100)...)
		r.publishTo(t, r.broker.Topology().Bulk(), broadcast("cold", "cold", 10)...)
		for i := range 40 { // 2.4 s
			time.Sleep(60 * time.Millisecond)
			r.talk(t, "busy", fmt.Sprintf("u%d-", i), 1)
		}
		if got := sentOf(a, "cold"); got != 10 {
			t.Errorf("sent of the other page's broadcast in 2.4 s = %d, want 10", got)
		}
		if got := sentOf(a, "busy"); got != 0 {
			t.Errorf("sent of the busy page's broadcast = %d, want 0", got)
		}
		time.Sleep(10 * time.Second)
		if got := sentOf(a, "busy"); got != 100 {
			t.Errorf("sent of the busy page's broadcast ten calm seconds later = %d, want 100", got)
		}
		if got := testutil.ToFloat64(r.metrics.overflowed); got != 0 {
			t.Errorf("overflowed = %v, want 0: the page was never in excess", got)
		}
		for id, n := range a.calls {
			if n != 1 {
				t.Errorf("calls for %s = %d, want 1", id, n)
			}
		}
		r.stop(t)
	})
}

// What is past its deadline while its page is in excess does not go round.
func TestBroadcastExpiresBesideAPageInExcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := limited(t, &api{latency: 40 * time.Millisecond})
		time.Sleep(5 * time.Second)
		r.talk(t, "hot", "u", 400) // 20 s of the page's limit
		time.Sleep(time.Second)
		late := broadcast("late", "hot", 5)
		for i := range late {
			late[i].Deadline = time.Now().Add(time.Second).UnixMilli()
		}
		r.publishTo(t, r.broker.Topology().Bulk(), late...)
		time.Sleep(2 * time.Second)
		if got := testutil.ToFloat64(r.metrics.dead.WithLabelValues(string(message.ReasonExpired))); got != 5 {
			t.Errorf("expired a second after the deadline = %v, want 5", got)
		}
		r.stop(t)
		if got := len(r.drain(t, r.broker.Topology().Bulk())); got != 0 {
			t.Errorf("left on the bulk queue = %d, want 0", got)
		}
	})
}

// A broadcast takes what its page has left and never puts the page in excess:
// on the lane, replies would be behind all of it. With replies at half of the
// share it gets the other half, and a reply waits for no more than a few of it.
func TestBroadcastGetsWhatItsPageLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 40 * time.Millisecond}
		var mu sync.Mutex
		var longest time.Duration
		a.answer = func(out message.Outbound, _ int) sender.Outcome {
			if out.Broadcast == "" {
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, out.Age(time.Now()))
			}
			return sender.Sent
		}
		r := limited(t, a)
		r.publishTo(t, r.broker.Topology().Bulk(), broadcast("news", "p", 3000)...)
		time.Sleep(5 * time.Second)
		before := sentOf(a, "news")
		for i := range 300 { // 10 a second
			r.publish(t, msg("p", fmt.Sprintf("u%d", i), i))
			time.Sleep(100 * time.Millisecond)
		}
		got := sentOf(a, "news") - before
		if got < 270 || got > 300 {
			t.Errorf("messages of the broadcast sent beside 300 replies at a share of 19.6/s = %d, want 270 to 300", got)
		}
		// Four of the broadcast before it, itself, and its call.
		if most := 5*time.Second/19 + 50*time.Millisecond; longest > most {
			t.Errorf("longest wait of a reply = %v, want at most %v", longest, most)
		}
		if got := testutil.ToFloat64(r.metrics.overflowed); got != 0 {
			t.Errorf("overflowed = %v, want 0: the page was never in excess", got)
		}
		r.stop(t)
	})
}

// While its page is in excess a broadcast goes round in its queue, slowly, and
// lets those to other pages pass; afterwards all of it is sent, once.
func TestBroadcastOfAPageInExcessStaysOffItsLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 40 * time.Millisecond}
		r := limited(t, a)
		time.Sleep(2 * time.Second)
		for i := range 400 { // 20 s of the page's limit, at once
			r.publish(t, msg("hot", fmt.Sprintf("u%d", i), i))
		}
		time.Sleep(time.Second)
		r.publishTo(t, r.broker.Topology().Bulk(), broadcast("hot", "hot", 200)...)
		r.publishTo(t, r.broker.Topology().Bulk(), broadcast("cold", "cold", 10)...)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := sentOf(a, "cold"); got != 10 {
			t.Errorf("sent of the other page's broadcast = %d, want 10", got)
		}
		if got := sentOf(a, "hot"); got != 0 {
			t.Errorf("sent of the broadcast of the page in excess = %d, want 0", got)
		}
		if got := testutil.ToFloat64(r.metrics.givenBack); got < 200 || got > 5*bulkPrefetch/bulkRest.Seconds() {
			t.Errorf("given back in 5 s = %v, want all 200 once at least, and at most %v", got, 5*bulkPrefetch/bulkRest.Seconds())
		}
		if got := testutil.ToFloat64(r.metrics.overflowed); got > 400 {
			t.Errorf("overflowed = %v, want at most the page's 400 messages", got)
		}
		time.Sleep(2 * time.Minute)
		r.stop(t)
		var told []int64
		for _, m := range r.drain(t, r.broker.Topology().Inbound()) {
			ev, err := message.DecodeEvent(m.Body)
			if err != nil || ev.Page != "hot" || ev.Reason != message.FeedbackBusy || ev.Until != ev.Time+3000 {
				t.Errorf("event = %+v, %v, want one that says for 3 s that the page is busy", ev, err)
			}
			told = append(told, ev.Time)
		}
		// The page's 400 messages take 20 s at least, and its broadcast goes round until then.
		if n := len(told); n < 15 || told[n-1]-told[0] < int64(n-2)*1000 {
			t.Errorf("core was told %d times in %d ms, want it told for 15 s at least, and once a second at most", n, told[n-1]-told[0])
		}
		if got := len(a.accepted()); got != 610 {
			t.Errorf("accepted = %d, want 610", got)
		}
		for id, n := range a.calls {
			if n != 1 {
				t.Errorf("calls for %s = %d, want 1", id, n)
			}
		}
	})
}
