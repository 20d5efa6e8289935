package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// quiet publishes one message a second of a page of its own for a time, and
// fails where one was not sent at once.
func (r *rig) quiet(t *testing.T, a *api, length time.Duration) {
	t.Helper()
	late := 0
	for i := range int(length / time.Second) {
		m := msg("quiet", fmt.Sprintf("q%d", i), i)
		r.publish(t, m)
		time.Sleep(time.Second)
		if a.callsFor(m.ID) == 0 {
			late++
		}
	}
	if late > 0 {
		t.Errorf("messages of the quiet page that waited for a second = %d, want 0", late)
	}
}

// A page whose every call fails in passing has a message for each try between
// its calls. They must not take every place that other pages need.
func TestPageThatFailsKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 10 * time.Millisecond}
		a.answer = func(out message.Outbound, _ int) sender.Outcome {
			if out.Page == "bad" {
				return sender.Transient
			}
			return sender.Sent
		}
		r := start(t, a, func(c *Config) {
			c.Gate = excess.New(excess.Config{Limit: func(string) float64 { return 300 }, LaneHold: 512}, time.Now())
			c.MaxAttempts, c.Prefetch = 8, 256
		})
		time.Sleep(2 * time.Second) // until it has joined
		stop := make(chan struct{})
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Second / 35): // with all its tries below the limit
					r.publish(t, msg("bad", fmt.Sprintf("b%d", i), i))
				}
			}
		}()
		r.quiet(t, a, time.Minute)
		close(stop)
		r.stop(t)
	})
}

// A person's text waits behind a voice message to the same person, which waits
// on the lane for a limit that is a thirtieth. The texts that wait must not take
// every place that other pages need.
func TestTextBehindMediaKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &api{latency: 10 * time.Millisecond}
		r := start(t, a, func(c *Config) {
			c.Gate = excess.New(excess.Config{Limit: func(class string) float64 {
				if class == string(message.ClassMedia) {
					return 10
				}
				return 300
			}, LaneHold: 512}, time.Now())
			c.LanePrefetch = 512
		})
		stop := make(chan struct{})
		ended := make(chan struct{})
		texts := 0
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Second / 40):
				}
				m := msg("loud", fmt.Sprintf("l%d", i%100), i)
				if i%2 == 0 {
					m.Class = message.ClassMedia
				} else {
					m.To = fmt.Sprintf("l%d", (i-1)%100)
					texts++
				}
				r.publish(t, m)
			}
		}()
		r.quiet(t, a, 90*time.Second)
		close(stop)
		<-ended
		time.Sleep(5 * time.Minute)
		r.stop(t)
		if got, want := len(a.accepted()), 90+2*texts; got < want-1 || got > want+1 {
			t.Errorf("accepted = %d, want %d", got, want)
		}
	})
}
