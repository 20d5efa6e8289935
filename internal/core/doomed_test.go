package core

import (
	"context"
	"errors"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// crash is the point at which a core dies: between two steps.
type crash int

const (
	nowhere crash = iota
	beforeReceive
	beforePublish
	inPublish
	beforeDone
	beforeAck
)

var errCrash = errors.New("crash")

// doomed is a core that dies where a test says.
type doomed struct {
	core   *Core
	where  crash
	die    context.CancelFunc
	broker *flakyBroker
}

func newDoomed(t *testing.T, b *memory.Broker, store Store, now func() time.Time) *doomed {
	t.Helper()
	d := &doomed{broker: &flakyBroker{Broker: b}}
	flaky := &flakyStore{Store: store}
	die := func(here crash) error {
		if d.where != here {
			return nil
		}
		d.die()
		return errCrash
	}
	flaky.before = func(method string) error {
		switch method {
		case "receive":
			return die(beforeReceive)
		case "done":
			return die(beforeDone)
		}
		return nil
	}
	d.broker.before = func(ctx context.Context, msgs []queue.Message) error {
		if d.where == inPublish {
			if err := b.Publish(ctx, msgs[:len(msgs)/2]...); err != nil {
				return err
			}
		}
		return errors.Join(die(beforePublish), die(inPublish))
	}
	c, err := New(Config{Broker: d.broker, Store: flaky, Idle: propIdle, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	d.core = c
	return d
}

// settler is the channel of a delivery. If dies is set, it is lost before the
// acknowledgement.
type settler struct{ dies, acked bool }

func (s *settler) Ack(uint64) error {
	if s.dies {
		return queue.ErrStale
	}
	s.acked = true
	return nil
}
func (*settler) Requeue(uint64) error { return nil }
func (*settler) Live() bool           { return true }

// handle handles an event, and returns whether it is off the queue then.
func (d *doomed) handle(ev message.Event, where crash) bool {
	run, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.where, d.die = where, cancel
	body, err := ev.Encode()
	if err != nil {
		panic(err)
	}
	s := &settler{dies: where == beforeAck}
	delivery := queue.NewDelivery(d.broker, s, 1, queue.Message{Queue: "test.inbound.00", ID: ev.ID, Body: body}, true)
	d.core.handler.handle(run, context.Background(), inbound{delivery: delivery, event: ev})
	return s.acked
}
