package core

import (
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
)

// TestWatch: what waits for long is told once a minute, unless a reason holds.
func TestWatch(t *testing.T) {
	t.Parallel()
	const minute = time.Minute + time.Second
	for _, row := range []struct {
		name string
		wait func(r *rig, ended <-chan struct{}) // brings the wait about, before the start
		want float64                             // waits told in a minute
	}{
		{"database does not answer", func(r *rig, _ <-chan struct{}) {
			r.store.before = func(method string) error {
				if method == "receive" {
					time.Sleep(10 * time.Second) // its longest time
					return errAway
				}
				return nil
			}
		}, 0},
		{"every event takes long, and workers are few", func(r *rig, _ <-chan struct{}) {
			r.store.before = func(method string) error {
				if method == "receive" {
					time.Sleep(8 * time.Second)
				}
				return nil
			}
		}, 0},
		{"a step never ends", func(r *rig, ended <-chan struct{}) {
			r.store.before = func(method string) error {
				if method == "receive" {
					<-ended
				}
				return nil
			}
		}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRigOn(t, newBroker(t), newStore(t, "sqlite::memory:"), func(c *Config) { c.Workers = 1 })
				r.unexplained = row.want
				ended := make(chan struct{})
				row.wait(r, ended)
				stop := r.start(t)
				for _, page := range []string{"p", "q", "r", "s"} {
					r.say(t, on(page, now("1", "m", "hello")))
				}
				time.Sleep(minute)
				close(ended)
				if err := stop(); err != nil {
					t.Errorf("Run() = %v, want nil", err)
				}
			})
		})
	}
}

// TestWatchFindsForgottenPage: a page with an event that no worker will take is told, also
// where others go on.
func TestWatchFindsForgottenPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPages(2, 1)
		for _, id := range []string{"p", "q"} {
			p.pages[id] = &page{waiting: []inbound{{event: message.Event{Page: id}}}, moved: time.Now()}
		}
		told := func() (list []string) {
			p.check(time.Now(), waitsForStep, func(page string, _ *page) { list = append(list, page) })
			return list
		}
		for second := range 80 {
			p.pages["q"].moved = time.Now()
			want := 0
			if second == 15 || second == 75 {
				want = 1
			}
			if got := told(); len(got) != want || want > 0 && got[0] != "p" {
				t.Errorf("pages told after %d s = %v, want %d", second, got, want)
			}
			time.Sleep(time.Second)
		}
	})
}
