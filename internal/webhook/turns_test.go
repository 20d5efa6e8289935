package webhook

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
)

// hanging is a broker that does not keep to the time-out.
type hanging struct{ until chan struct{} }

func (h hanging) Publish(context.Context, ...queue.Message) error {
	<-h.until
	return nil
}

// TestSinceTurn: requests that hang are seen, although others begin; none in hand, or some
// that end, are no reason.
func TestSinceTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := hanging{make(chan struct{})}
		f := setup(t, func(c *Config) { c.Broker = broker })
		want := func(when string, want time.Duration) {
			t.Helper()
			if got := f.SinceTurn(); got != want {
				t.Errorf("SinceTurn() %s = %v, want %v", when, got, want)
			}
		}
		time.Sleep(time.Hour)
		want("without requests", 0)
		for range 3 {
			go f.postSigned(oneText)
			time.Sleep(4 * time.Second)
		}
		want("with three that hang", 12*time.Second)
		f.do("GET", "/webhook", nil)
		want("when one of four has ended", 0)
		time.Sleep(time.Second)
		want("a second later", time.Second)
		close(broker.until)
		synctest.Wait()
		time.Sleep(time.Hour)
		want("when all have ended", 0)
	})
}
