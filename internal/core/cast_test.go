package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// wantLast checks when the last message of a broadcast came.
func (e *ear) wantLast(t testing.TB, id string, least, most time.Duration) {
	t.Helper()
	heard := e.of(id)
	if len(heard) == 0 || heard[len(heard)-1] < least || heard[len(heard)-1] > most {
		t.Errorf("the last of %d messages of %s came at %v, want between %v and %v", len(heard), id, heard[max(0, len(heard)-1):], least, most)
	}
}

// TestBroadcastsGoSideBySide: none waits for another, whatever their sizes and
// rates.
func TestBroadcastsGoSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 200)
		r.members(t, "q", 100)
		r.members(t, "s", 5)
		r.handled(t)
		e := listen(t, r.broker)
		stop := r.start(t)
		r.cast(t, `{"page":"p","text":"big","id":"big","rate":20}`)
		r.cast(t, `{"page":"s","text":"slow","id":"slow","rate":0.05}`)
		r.cast(t, `{"page":"s","text":"`+strings.Repeat("word ", 500)+`","id":"parts","rate":1}`)
		time.Sleep(time.Second)
		r.cast(t, `{"page":"q","text":"second","id":"second","rate":10}`)
		time.Sleep(30 * time.Second)
		e.wantLast(t, "big", 10*time.Second, 11500*time.Millisecond)
		e.wantLast(t, "second", 11*time.Second, 12500*time.Millisecond)
		e.wantLast(t, "parts", 8*time.Second, 9500*time.Millisecond)
		time.Sleep(time.Minute)
		e.wantLast(t, "slow", 80*time.Second, 82*time.Second)
		for id, tt := range map[string]struct {
			messages, least int
			rate            float64
		}{"big": {200, 1, 20}, "second": {100, 1, 10}, "slow": {5, 1, 0.05}, "parts": {10, 2, 1}} {
			e.wantOnce(t, id, tt.messages)
			e.wantRate(t, id, tt.rate, tt.least)
		}
		parts := e.of("parts")
		for i := 0; i < len(parts); i += 2 {
			if parts[i] != parts[i+1] {
				t.Errorf("the parts of one recipient came at %v and %v, want together", parts[i], parts[i+1])
			}
		}
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// TestManyBroadcasts: they share their round trips.
func TestManyBroadcasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 5)
		r.handled(t)
		e := listen(t, r.broker)
		var trips atomic.Int64
		r.store.before = func(method string) error {
			if method == "next" || method == "advance" {
				trips.Add(1)
			}
			return nil
		}
		const casts = 250
		for i := range casts {
			r.cast(t, fmt.Sprintf(`{"page":"p","text":"x","id":"c%d","rate":1}`, i))
		}
		stop := r.start(t)
		time.Sleep(10 * time.Second)
		for i := range casts {
			e.wantOnce(t, fmt.Sprint("c", i), 5)
			e.wantLast(t, fmt.Sprint("c", i), 4*time.Second, 7*time.Second)
		}
		// Five turns each of one read and one write, some 25 together.
		if got := trips.Load(); got > casts*5*2/20 {
			t.Errorf("round trips = %d, want at most %d", got, casts*5*2/20)
		}
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// another is one more core on the rig's broker and database.
func (r *rig) another(t testing.TB) *rig {
	t.Helper()
	return newRigOn(t, r.broker, r.store.Store)
}

// mortal makes a core that dies at its next call of method after kill was
// called: nothing that it does has an effect any more. gone is closed then.
func (r *rig) mortal(method string) (kill func(), gone <-chan struct{}) {
	var armed, dead atomic.Bool
	ended := make(chan struct{})
	r.store.before = func(called string) error {
		if called == method && armed.Load() && dead.CompareAndSwap(false, true) {
			close(ended)
		}
		if dead.Load() {
			return errAway
		}
		return nil
	}
	r.flaky.before = func(context.Context, []queue.Message) error {
		if dead.Load() {
			return queue.ErrUnavailable
		}
		return nil
	}
	return func() { armed.Store(true) }, ended
}

// TestKilledCoresBroadcastGoesOn: at another core within ten seconds, and a
// second's worth is queued twice at most, under the same ids.
func TestKilledCoresBroadcastGoesOn(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"next", "advance"} {
		t.Run("before "+method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newRig(t)
				a.members(t, "p", 200)
				a.handled(t)
				b := a.another(t)
				e := listen(t, a.broker)
				kill, gone := a.mortal(method)
				stopA := a.start(t)
				a.cast(t, `{"page":"p","text":"big","id":"big","rate":10}`)
				time.Sleep(5500 * time.Millisecond)
				stopB := b.start(t)
				kill()
				<-gone
				if err := stopA(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
				time.Sleep(40 * time.Second)
				heard := e.of("big")
				var gap time.Duration
				for i := 1; i < len(heard); i++ {
					gap = max(gap, heard[i]-heard[i-1])
				}
				if gap < 5*time.Second || gap > 10*time.Second {
					t.Errorf("longest time without a message = %v, want the lease's 8 s, about, and at most 10 s", gap)
				}
				twice := len(e.twice)
				for id, n := range e.twice {
					if n > 1 {
						t.Errorf("message %s came %d times, want twice at most", id, n+1)
					}
				}
				most := 12 // 1.1 s at 10/s
				if method == "next" {
					most = 0
				}
				if len(e.known) != 200 || twice > most {
					t.Errorf("recipients = %d, messages that came twice = %d, want 200 and at most %d", len(e.known), twice, most)
				}
				if method == "advance" && twice == 0 {
					t.Error("nothing came twice: the core did not die between queue and database")
				}
				if err := stopB(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
			})
		})
	}
}

// TestBroadcastsMoveOnACleanStop: at once, nothing twice, and the rate is kept
// across the change.
func TestBroadcastsMoveOnACleanStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 100)
		r.handled(t)
		e := listen(t, r.broker)
		r.cast(t, `{"page":"p","text":"x","id":"fast","rate":10}`)
		r.cast(t, `{"page":"p","text":"x","id":"slow","rate":0.1}`)
		for range 12 { // cores that live for 4.9 s each
			next := r.another(t)
			stop := next.start(t)
			time.Sleep(4900 * time.Millisecond)
			if err := stop(); err != nil {
				t.Errorf("Run() = %v, want nil", err)
			}
		}
		e.wantOnce(t, "fast", 100)
		e.wantLast(t, "fast", 9*time.Second, 12*time.Second)
		e.wantRate(t, "fast", 10, 1)
		e.wantOnce(t, "slow", 6)
		e.wantRate(t, "slow", 0.1, 1)
	})
}

// TestCoresShareBroadcasts: each message once, however many cores there are.
func TestCoresShareBroadcasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 100)
		r.handled(t)
		e := listen(t, r.broker)
		cores := []*rig{r, r.another(t), r.another(t)}
		var stops []func() error
		for _, c := range cores {
			stops = append(stops, c.start(t))
		}
		time.Sleep(time.Second)
		for i := range 30 {
			cores[i%3].cast(t, fmt.Sprintf(`{"page":"p","text":"x","id":"c%d","rate":10}`, i))
		}
		time.Sleep(15 * time.Second)
		for i := range 30 {
			e.wantOnce(t, fmt.Sprint("c", i), 100)
			e.wantRate(t, fmt.Sprint("c", i), 10, 1)
			e.wantLast(t, fmt.Sprint("c", i), 10*time.Second, 13*time.Second)
		}
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Errorf("Run() = %v, want nil", err)
			}
		}
	})
}

// TestOperatorsHoldABroadcast: they pause its page, resume it, and stop it; and
// its deadline comes.
func TestOperatorsHoldABroadcast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 200)
		r.handled(t)
		e := listen(t, r.broker)
		stop := r.start(t)
		r.cast(t, `{"page":"p","text":"x","id":"a","rate":10,"deadline":"2000-01-01T00:00:50Z"}`)
		r.cast(t, `{"page":"p","text":"x","id":"b","rate":10,"deadline":"2000-01-01T00:00:25Z"}`)
		time.Sleep(5500 * time.Millisecond)
		r.wantAnswer(t, "POST", "/pages/p/pause", ``, 204, "")
		before := len(e.of("a"))
		time.Sleep(15 * time.Second)
		if got := len(e.of("a")); before < 50 || before > 61 || got != before {
			t.Errorf("messages before and after a pause = %d, %d, want about 55 and no more", before, got)
		}
		r.wantAnswer(t, "POST", "/pages/p/resume", ``, 204, "")
		time.Sleep(2 * time.Second)
		if got := len(e.of("a")) - before; got < 15 || got > 36 {
			t.Errorf("messages in the two seconds after a pause = %d, want those and at most 15 that it missed", got)
		}
		r.wantAnswer(t, "DELETE", "/broadcasts/a", "", 200, "…")
		stopped := len(e.of("a"))
		time.Sleep(10 * time.Second)
		if got := len(e.of("a")); got != stopped {
			t.Errorf("messages after the stop = %d, want none", got-stopped)
		}
		for id, state := range map[string]string{"a": "stopped", "b": "expired"} {
			for _, method := range []string{"GET", "DELETE"} {
				_, answer := r.ask(t, method, "/broadcasts/"+id, "")
				if want := fmt.Sprintf(`"queued":%d,"state":"%s"}`, len(e.of(id)), state); !strings.HasSuffix(answer, want) {
					t.Errorf("%s /broadcasts/%s = %s, want %s", method, id, answer, want)
				}
			}
		}
		e.wantLast(t, "b", 20*time.Second, 25*time.Second)
		e.wantOnce(t, "a", stopped)
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		r.wantMetrics(t, `
			# HELP chatclub_core_broadcasts_total Broadcasts that ended, by how: all of it queued, stopped by an operator, or past its deadline.
			# TYPE chatclub_core_broadcasts_total counter
			chatclub_core_broadcasts_total{state="done"} 0
			chatclub_core_broadcasts_total{state="expired"} 1
			chatclub_core_broadcasts_total{state="stopped"} 1
		`, "chatclub_core_broadcasts_total")
	})
}

// TestBusyPagesBroadcastWaits: as long as dispatchers say that it must, and no
// other does.
func TestBusyPagesBroadcastWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 100)
		r.members(t, "q", 100)
		r.handled(t)
		e := listen(t, r.broker)
		stop := r.start(t)
		r.cast(t, `{"page":"p","text":"x","id":"busy","rate":10}`)
		r.cast(t, `{"page":"q","text":"x","id":"free","rate":10}`)
		time.Sleep(2500 * time.Millisecond)
		for i := range 10 { // the last one's word ends at 14.5 s
			at := time.Now()
			r.say(t, message.Event{
				Kind: message.KindFeedback, Page: "p", ID: fmt.Sprint("busy", i), User: "u001", Time: at.UnixMilli(),
				Reason: message.FeedbackBusy, Until: at.Add(3 * time.Second).UnixMilli(),
			})
			time.Sleep(time.Second)
		}
		if got := len(e.of("busy")); got > 26 {
			t.Errorf("messages of the busy page's broadcast = %d, want what 2.5 s allow", got)
		}
		time.Sleep(time.Minute)
		e.wantLast(t, "free", 9*time.Second, 12*time.Second)
		e.wantLast(t, "busy", 22*time.Second, 25*time.Second)
		e.wantOnce(t, "free", 100)
		e.wantOnce(t, "busy", 100)
		e.wantRate(t, "busy", 10, 1)
		r.cast(t, `{"page":"p","text":"x","id":"next","rate":1}`)
		time.Sleep(1500 * time.Millisecond)
		r.say(t, message.Event{ // from a clock that is thousands of years ahead
			Kind: message.KindFeedback, Page: "p", ID: "far", User: "u001", Time: 1, Reason: message.FeedbackBusy, Until: 1 << 50,
		})
		time.Sleep(20 * time.Second)
		if got := len(e.of("next")); got < 8 || got > 12 {
			t.Errorf("messages of a broadcast that a wrong clock held up for 10 of 21 s = %d, want about 11", got)
		}
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// TestLongBulkQueueHoldsBroadcasts: nothing is added to a queue that nobody
// empties, and afterwards the rate is kept.
func TestLongBulkQueueHoldsBroadcasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 100)
		r.handled(t)
		stop := r.start(t)
		bulk := r.broker.Topology().Bulk()
		msgs := slices.Repeat([]queue.Message{{Queue: bulk, ID: "x", Body: []byte("{}")}}, 1001)
		if err := r.broker.Publish(t.Context(), msgs...); err != nil {
			t.Fatal(err)
		}
		r.cast(t, `{"page":"p","text":"x","id":"a","rate":10}`)
		time.Sleep(10 * time.Second)
		r.wantQueue(t, bulk, 1001)
		const metric = `
			# HELP chatclub_core_bulk_full 1 while broadcasts wait because the bulk queue is too long.
			# TYPE chatclub_core_bulk_full gauge
			chatclub_core_bulk_full %d
		`
		r.wantMetrics(t, fmt.Sprintf(metric, 1), "chatclub_core_bulk_full")
		take(t, r.broker, bulk)
		e := listen(t, r.broker)
		time.Sleep(20 * time.Second)
		e.wantOnce(t, "a", 100)
		e.wantLast(t, "a", 8*time.Second, 11*time.Second)
		if got := e.of("a"); len(got) > 16 && got[15] == got[16] {
			t.Errorf("more than 16 messages were queued at %v, want one and what 1.5 s allow", got[16])
		}
		r.wantMetrics(t, fmt.Sprintf(metric, 0), "chatclub_core_bulk_full")
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// TestBroadcastsOutlastFaults: of the database and the broker, each message
// once.
func TestBroadcastsOutlastFaults(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"claim", "claimed", "next", "advance", "publish"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.members(t, "p", 100)
				r.handled(t)
				e := listen(t, r.broker)
				r.store.before = times(3, method)
				r.flaky.before = func(context.Context, []queue.Message) error { return r.store.before("publish") }
				stop := r.start(t)
				r.cast(t, `{"page":"p","text":"x","id":"a","rate":10}`)
				time.Sleep(40 * time.Second)
				e.wantOnce(t, "a", 100)
				e.wantRate(t, "a", 10, 5)
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
				r.wantMetrics(t, `
					# HELP chatclub_core_broadcasts_total Broadcasts that ended, by how: all of it queued, stopped by an operator, or past its deadline.
					# TYPE chatclub_core_broadcasts_total counter
					chatclub_core_broadcasts_total{state="done"} 1
					chatclub_core_broadcasts_total{state="expired"} 0
					chatclub_core_broadcasts_total{state="stopped"} 0
				`, "chatclub_core_broadcasts_total")
			})
		})
	}
}
