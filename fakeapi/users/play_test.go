package users_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/users"
)

// TestPlay: a run that is asked to stop while copies wait says how many and how
// long, and waits for them until it is asked once more or nobody sends.
func TestPlay(t *testing.T) {
	t.Parallel()
	const (
		limit = 4
		stop  = 10*time.Second + 7*time.Millisecond // between two events and two calls
	)
	for name, tc := range map[string]struct {
		again  time.Duration // after it was asked to stop
		stuck  bool          // nothing is sent any more once the run was asked to stop
		awaits bool          // something is awaited in the end
		takes  time.Duration
	}{
		"asked once":       {again: time.Hour, takes: 10 * time.Second},
		"asked twice":      {again: 2 * time.Second, awaits: true, takes: 2 * time.Second},
		"nobody sends now": {again: time.Hour, stuck: true, awaits: true, takes: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Text.PerSecond = limit })})
				b := fakeapitest.NewBot(p, 5)
				u := newUsers(t, users.Config{API: p.API, Webhook: b.Webhook(), Users: 5, EventsPerSecond: 2})
				ctx, cancel := context.WithTimeout(t.Context(), stop)
				defer cancel()
				again, cancelAgain := context.WithTimeout(t.Context(), stop+tc.again)
				defer cancelAgain()
				var said []string
				var stopped time.Time
				whole, err := u.Play(ctx, again, users.PlayOptions{Settle: time.Minute, Say: func(line string) {
					said, stopped = append(said, line), time.Now()
					n := p.Ledger().Pending()
					want := fmt.Sprintf("stopping: %d copies wait for their page's limit, about %ds; Ctrl-C again leaves them on the queue", n, (n+limit/2)/limit)
					if line != want {
						t.Errorf("Play said %q, want %q", line, want)
					}
					if tc.stuck {
						s := p.Settings()
						s.Pages = map[string]*fakeapi.PageSettings{u.Pages()[0]: {State: fakeapi.Disabled}}
						if err := p.Apply(s); err != nil {
							t.Error(err)
						}
					}
				}})
				took := time.Since(stopped)
				if whole || err != nil || len(said) != 1 {
					t.Errorf("Play = %v %v, said %q, want false, nil and one line", whole, err, said)
				}
				if awaits := p.Ledger().Pending() > 0; awaits != tc.awaits || took < tc.takes-2*time.Second || took > tc.takes+2*time.Second {
					t.Errorf("%d ids are awaited %v after it was asked to stop, want some: %v, after %v", p.Ledger().Pending(), took, tc.awaits, tc.takes)
				}
				b.Wait()
			})
		})
	}
}

// TestPlayWhole: a run that ends by itself says nothing, and gives up what does not
// come for a while.
func TestPlayWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Text.PerSecond = 4 })})
		b := fakeapitest.NewBot(p, 5)
		b.Lose = func(n int64) bool { return n == 7 }
		u := newUsers(t, users.Config{API: p.API, Webhook: b.Webhook(), Users: 5, EventsPerSecond: 2})
		whole, err := u.Play(t.Context(), t.Context(), users.PlayOptions{
			Duration: 10 * time.Second, Settle: 2 * time.Second,
			Say: func(line string) { t.Errorf("Play said %q, want nothing", line) },
		})
		if c := p.Ledger().Totals(); !whole || err != nil || c.Lost != 1 || c.Accepted != 5+79 {
			t.Errorf("Play = %v %v, ledger %s, want true, nil and one lost of 85", whole, err, p.Line())
		}
		b.Wait()
	})
}
