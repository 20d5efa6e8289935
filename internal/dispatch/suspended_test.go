package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// A suspended page costs no call until its probe, and an answered probe resumes
// it.
func TestSuspendedPage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(func(message.Outbound, int) sender.Result { return fail(sender.PageStopped) })
		send := func() {
			r.text("page0", "ann")
			r.sleep(time.Second)
		}
		calls := func() int { return len(r.callsOf("page0")) }
		send()
		send()
		if got := calls(); got != 1 {
			t.Fatalf("calls = %d, want 1: the page is suspended", got)
		}
		r.sleep(30 * time.Minute)
		send() // the probe, refused
		send()
		if got := calls(); got != 2 {
			t.Fatalf("calls after 30 min = %d, want 2", got)
		}
		r.sleep(30 * time.Minute)
		send()
		if got := calls(); got != 2 {
			t.Fatalf("calls after an hour = %d, want 2: the wait doubles", got)
		}
		r.script(nil)
		r.sleep(30 * time.Minute)
		send() // the second probe, sent
		send()
		if got := len(r.ids()); got != 2 {
			t.Errorf("accepted = %d, want 2", got)
		}
		if got := len(r.dead()); got != 5 {
			t.Errorf("dead letters = %d, want 5", got)
		}
	})
}

// Of messages that arrive together when a probe is due one is the probe.
func TestOneProbeOfASuspendedPage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(func(message.Outbound, int) sender.Result { return fail(sender.PageStopped) })
		r.text("page0", "ann")
		r.sleep(31 * time.Minute)
		r.text("page0", guests("u", 50)...)
		r.sleep(time.Second)
		if got := len(r.callsOf("page0")); got != 2 {
			t.Errorf("calls = %d, want 2", got)
		}
		if got := len(r.dead()); got != 51 {
			t.Errorf("dead letters = %d, want 51", got)
		}
	})
}

// A new token resumes a page at once.
func TestNewTokenResumes(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(func(message.Outbound, int) sender.Result { return fail(sender.PageStopped) })
		r.text("page0", "ann")
		r.sleep(time.Second)
		r.script(nil)
		r.only().TokensChanged([]string{"page9", "page0"})
		ids := r.text("page0", "ann", "bob")
		r.sleep(time.Second)
		for _, id := range ids {
			if r.accepted[id] != 1 {
				t.Errorf("%s was not accepted", id)
			}
		}
		if n := r.only().suspended.len(); n != 0 {
			t.Errorf("%d pages are suspended, want none", n)
		}
	})
}

// tokens answers NoToken for a page that has none, and makes no call for it.
type tokens struct {
	client

	has  *atomic.Bool
	asks *atomic.Int32
}

// Send implements Caller.
func (c tokens) Send(ctx context.Context, o message.Outbound) sender.Result {
	if !c.has.Load() {
		c.asks.Add(1)
		return sender.Result{Outcome: sender.NoToken, Err: sender.ErrNoToken}
	}
	return c.client.Send(ctx, o)
}

// Messages of a page without a token wait some minutes for it; then they are
// dead, and the page is looked at as any suspended one. The page is resumed when
// its token comes.
func TestNoToken(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		after time.Duration
		dead  bool
	}{
		{"a token after ten seconds", 10 * time.Second, false},
		{"a token after four minutes", 4 * time.Minute, false},
		{"a token after ten minutes", 10 * time.Minute, true},
		{"a token after two hours", 2 * time.Hour, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var has atomic.Bool
			var asks atomic.Int32
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				r.only().inspect(func(e *engine) {
					e.Sender = tokens{client{r.platform, 0}, &has, &asks}
				})
				every(time.Second, 5*time.Second, func(int) { r.text("page0", guests("u", 10)...) })
				r.sleep(row.after - 5*time.Second)
				if n := len(r.dead()); (n == 50) != row.dead || !row.dead && n > 0 {
					t.Errorf("dead letters = %d, want all: %v", n, row.dead)
				}
				if row.after > time.Hour {
					r.text("page0", guests("u", 10)...) // its probe is due, and finds no token either
					r.sleep(time.Minute)
					if n := len(r.dead()); n != 10 {
						t.Errorf("dead letters of the probe's time = %d, want 10", n)
					}
				}
				if n := asks.Load(); n > 15 {
					t.Errorf("%d calls without a token, want at most those of a moment and a probe", n)
				}
				has.Store(true)
				r.only().TokensChanged([]string{"page0"})
				last := r.text("page0", guests("u", 10)...)
				r.sleep(time.Minute)
				for _, id := range last {
					if r.accepted[id] != 1 {
						t.Fatalf("%s was accepted %d times once the token was there", id, r.accepted[id])
					}
				}
				if !row.dead {
					r.inversions = nil // what came after the token did not wait
					r.checkSentOnce()
				}
			})
		})
	}
}

// Pages that nothing was sent to are forgotten, four hours after their probe.
func TestSuspendedPagesAreForgotten(t *testing.T) {
	t.Parallel()
	s, now := newSuspended(), time.Unix(1000, 0)
	s.suspend("p", "190", 0, now)
	if s.suspend("p", "368", 0, now) {
		t.Error("suspend() of a suspended page = true")
	}
	s.suspend("q", "", tokenGrace, now)
	for _, row := range []struct {
		after time.Duration
		left  int
		p, q  hold
	}{
		{0, 2, forGood, forNow},
		{tokenGrace, 2, forGood, forGood},
		{minProbe, 2, notHeld, notHeld},
		{minProbe + forgetSuspended, 2, notHeld, notHeld},
		{minProbe + forgetSuspended + 1, 0, notHeld, notHeld},
	} {
		at := now.Add(row.after)
		s.sweep(at)
		if n := s.len(); n != row.left {
			t.Errorf("after %v %d pages are suspended, want %d", row.after, n, row.left)
		}
		if p, q := s.holds("p", at), s.holds("q", at); p != row.p || q != row.q {
			t.Errorf("after %v holds() = %v, %v, want %v, %v", row.after, p, q, row.p, row.q)
		}
	}
}
