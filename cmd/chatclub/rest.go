package main

import (
	"context"
	"fmt"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/demo"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/internal/queue/rabbit"
)

// account empties the queues after every part has ended, and excuses their copies in the
// ledger: the copies that the ledger awaits after that are lost.
func (s *system) account(ctx context.Context, accounts *ledger.Ledger, crowd *demo.Crowd) (r rest, err error) {
	if accounts.Pending() == 0 {
		return rest{}, nil
	}
	var b queue.Broker
	if s.memory != nil {
		s.memory.EndDelays()
		b = s.memory
	} else {
		own, err := rabbit.Open(rabbit.Config{URLs: s.broker.URLs(), Topology: s.topology(), Log: s.log})
		if err != nil {
			return rest{}, fmt.Errorf("look at the queues: %w", err)
		}
		defer own.Close()
		b = own
	}
	left, err := leftover.Take(ctx, b)
	if err != nil {
		return rest{}, err
	}
	dead, err := leftover.Empty(ctx, b, b.Topology().Dead())
	if err != nil {
		return rest{}, err
	}
	return rest{left: accounts.Excuse(copies(left, crowd)...), dead: accounts.Excuse(copies(dead, crowd)...)}, nil
}

// copies returns the ids of the copies that deliveries stand for: their own, or
// those that core would make of their event.
func copies(list []*queue.Delivery, crowd *demo.Crowd) (ids []string) {
	for _, d := range list {
		ids = append(ids, d.ID)
		if e, err := message.DecodeEvent(d.Body); err == nil {
			ids = append(ids, crowd.Copies(e.Page, e.ID, e.User)...)
		}
	}
	return ids
}
