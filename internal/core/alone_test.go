package core

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// TestCoreBesideABot: core takes no event while a bot consumes them, says so, and begins when
// the bot has ended. Beside another core it begins at once, as it does where it is told to.
func TestCoreBesideABot(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name       string
		take       bool
		core       bool          // the consumer is another core
		lingers    time.Duration // until the consumer ends; 0: until all others were looked at
		wantErrors int           // lines in two minutes and a half
		wantReady  string
	}{
		{name: "a bot", wantErrors: 3, wantReady: "a bot consumes test.inbound.00: end it, or set TAKE_INBOUND=true"},
		{name: "what a killed core left", lingers: lookEvery / 2},
		{name: "told to", take: true},
		{name: "another core", core: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, s := newBroker(t), newStore(t, "sqlite::memory:")
			end := func() error { return nil }
			if row.core {
				end = newRigOn(t, b, s).start(t)
			} else {
				bot, err := b.Consume(b.Topology().Inbound(0), queue.ConsumeOptions{Prefetch: 1})
				if err != nil {
					t.Fatal(err)
				}
				end = bot.Close
			}
			var log bytes.Buffer
			r := newRigOn(t, b, s, func(c *Config) {
				c.TakeInbound = row.take
				c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			})
			if row.lingers > 0 {
				time.AfterFunc(row.lingers, func() { _ = end() })
			}
			stop := r.start(t)
			time.Sleep(2*tellEvery + tellEvery/2)
			synctest.Wait()
			wantReady(t, r, "beside "+row.name, row.wantReady)
			if got := strings.Count(log.String(), "level=ERROR"); got != row.wantErrors {
				t.Errorf("beside %s it logged %d errors, want %d:\n%s", row.name, got, row.wantErrors, log.String())
			}
			if err := end(); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * lookEvery)
			synctest.Wait()
			wantReady(t, r, "after "+row.name, "")
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCoreBesideAConsumerThatIsGone: what RabbitMQ 4.3 keeps of a core that is gone holds up one
// partition, and not all.
func TestCoreBesideAConsumerThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 2})
		gone, err := b.Consume(b.Topology().Inbound(1), queue.ConsumeOptions{Prefetch: 1})
		if err != nil {
			t.Fatal(err)
		}
		r := newRigOn(t, b, newStore(t, "sqlite::memory:"))
		stop := r.start(t)
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		wantReady(t, r, "beside a consumer that is gone", "")
		if err := stop(); err != nil {
			t.Error(err)
		}
		_ = gone.Close()
	})
}
