package broadcast

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestGoesOnAfterADeath checks that the broadcast of a scheduler that died goes on
// at another within ten seconds. At most a second's worth is queued twice, under
// the same ids.
func TestGoesOnAfterADeath(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method      string
		least, most int // messages that are queued twice
	}{
		{"next", 0, 0},
		{"advance", 1, 12}, // 1.1 s at 10/s
	} {
		t.Run("before "+tt.method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newRig(t)
				a.members(t, "p", 80)
				b := a.another(t)
				rec := record(t, a.broker)
				kill, gone := a.mortal(tt.method)
				stopA := a.start(t)
				a.add(t, to("p", "big", 10))
				time.Sleep(5500 * time.Millisecond)
				stopB := b.start(t)
				kill()
				<-gone
				stopA()
				time.Sleep(14 * time.Second)
				stopB()
				times := rec.of("big")
				var gap time.Duration
				for i := 1; i < len(times); i++ {
					gap = max(gap, times[i]-times[i-1])
				}
				if gap < 5*time.Second || gap > 10*time.Second {
					t.Errorf("longest time without a message = %v, want about the lease's 8 s, and at most 10 s", gap)
				}
				twice := 0
				for id, n := range rec.ids {
					if n > 2 {
						t.Errorf("message %s came %d times, want twice at most", id, n)
					}
					twice += n - 1
				}
				if len(rec.ids) != 80 || twice < tt.least || twice > tt.most {
					t.Errorf("recipients = %d, messages that came twice = %d, want 80 and %d to %d", len(rec.ids), twice, tt.least, tt.most)
				}
			})
		})
	}
}

// TestMovesOnACleanStop checks that the broadcasts of a scheduler that stops go on
// at another at once, with no message twice and at the same rate.
func TestMovesOnACleanStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 60)
		rec := record(t, r.broker)
		r.add(t, to("p", "fast", 10))
		r.add(t, to("p", "slow", 0.1))
		for range 7 { // schedulers that live for 4.9 s each
			stop := r.another(t).start(t)
			time.Sleep(4900 * time.Millisecond)
			stop()
		}
		rec.wantOnce(t, "fast", 60)
		rec.wantLast(t, "fast", 5*time.Second, 8*time.Second)
		rec.wantRate(t, "fast", 10, 1)
		rec.wantOnce(t, "slow", 4)
		rec.wantRate(t, "slow", 0.1, 1)
	})
}

// TestShared checks that each message comes once, however many schedulers there
// are.
func TestShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.members(t, "p", 30)
		rec := record(t, r.broker)
		rigs := []*rig{r, r.another(t), r.another(t)}
		for _, r := range rigs {
			defer r.start(t)()
		}
		time.Sleep(time.Second)
		for i := range 15 {
			rigs[i%3].add(t, to("p", fmt.Sprint("b", i), 10))
		}
		time.Sleep(6 * time.Second)
		for i := range 15 {
			rec.wantOnce(t, fmt.Sprint("b", i), 30)
			rec.wantRate(t, fmt.Sprint("b", i), 10, 1)
			rec.wantLast(t, fmt.Sprint("b", i), 3*time.Second, 6*time.Second)
		}
	})
}
