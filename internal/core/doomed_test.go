package core

import (
	"context"
	"errors"
	"testing"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// crashes are the places between two steps where a core dies.
type crashes int

const (
	nowhere crashes = iota
	beforeReceive
	beforePublish
	inPublish
	beforeDone
	beforeAck
)

var errCrash = errors.New("crash")

// doomed is a core that can be told where to die next.
type doomed struct {
	core   *Core
	where  crashes
	die    context.CancelFunc
	broker *flakyBroker
}

func newDoomed(t *testing.T, b *memory.Broker, store Store) *doomed {
	t.Helper()
	d := &doomed{broker: &flakyBroker{Broker: b}}
	flaky := &flakyStore{Store: store}
	crash := func(here crashes) error {
		if d.where != here {
			return nil
		}
		d.die()
		return errCrash
	}
	flaky.before = func(method string) error {
		switch method {
		case "receive":
			return crash(beforeReceive)
		case "done":
			return crash(beforeDone)
		}
		return nil
	}
	d.broker.before = func(ctx context.Context, msgs []queue.Message) error {
		if d.where == inPublish {
			if err := b.Publish(ctx, msgs[:len(msgs)/2]...); err != nil {
				return err
			}
		}
		return errors.Join(crash(beforePublish), crash(inPublish))
	}
	c, err := New(Config{Broker: d.broker, Store: flaky, Idle: propIdle})
	if err != nil {
		t.Fatal(err)
	}
	d.core = c
	return d
}

// settler is a delivery's channel; it dies before the acknowledgement if it is
// told to.
type settler struct{ dies, acked bool }

func (s *settler) Ack(uint64) error {
	if s.dies {
		return queue.ErrStale
	}
	s.acked = true
	return nil
}
func (s *settler) Requeue(uint64) error { return nil }
func (*settler) Live() bool             { return true }

// handle tells whether the event is off the queue.
func (d *doomed) handle(ev message.Event, where crashes) bool {
	run, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.where, d.die = where, cancel
	body, err := ev.Encode()
	if err != nil {
		panic(err)
	}
	s := &settler{dies: where == beforeAck}
	delivery := queue.NewDelivery(d.broker, s, 1, queue.Message{Queue: "test.inbound", ID: ev.ID, Body: body}, true)
	d.core.handle(run, context.Background(), job{delivery: delivery, event: ev})
	return s.acked
}
