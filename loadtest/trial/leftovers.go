package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/loadtest/fleet"
)

// givenUp is the reason of dead letters of which a system says only that it has
// given them up.
const givenUp message.Reason = "given up"

// account counts the messages that are left or dead. Of those left, queued were
// accepted all the same, or are there twice: they would be sent again.
func (t *trial) account(ctx context.Context) (queued, left int64, err error) {
	if t.Deployed != nil {
		t.note("a running system's queues were not looked at: what had not arrived in the end counts as lost, dead letters included; replicas is what was said")
		return 0, 0, nil
	}
	ids, dead, err := t.leftovers(ctx)
	if err != nil {
		return 0, 0, err
	}
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(dead)) {
		if reason == "" { // a fault: its message stays lost
			t.note("%d dead letters have no reason", len(dead[reason]))
			continue
		}
		if _, err := t.judge.Excuse(ctx, dead[reason]...); err != nil {
			return 0, 0, err
		}
		t.dead += len(dead[reason])
		reasons = append(reasons, fmt.Sprintf("%d %s", len(dead[reason]), reason))
	}
	if reasons != nil {
		t.note("dead letters by reason: %s", strings.Join(reasons, ", "))
	}
	awaited, err := t.judge.Excuse(ctx, ids...)
	return int64(len(ids) - awaited), int64(awaited), err
}

// Dead takes the dead letters off their queue, and returns their ids by reason; "" is no
// reason of ours.
func Dead(ctx context.Context, b queue.Broker) (map[message.Reason][]string, error) {
	dead := make(map[message.Reason][]string)
	buried, err := leftover.Empty(ctx, b, b.Topology().Dead())
	for _, d := range buried {
		death, err := message.DeathFromHeaders(d.Headers)
		if err != nil {
			death.Reason = ""
		}
		dead[death.Reason] = append(dead[death.Reason], d.ID)
	}
	return dead, err
}

// leftovers takes everything off the queues, which nobody else consumes any
// more, and returns the ids of the messages, one for each place in which it
// was found, and the dead ones by their reasons. A system whose queues are its own is
// asked for them. Of an event these are the copies that it would make; what dispatchers
// tell core makes none.
func (t *trial) leftovers(ctx context.Context) (ids []string, dead map[message.Reason][]string, err error) {
	if o, ok := t.fleet.(fleet.Outside); ok {
		ids, given, err := o.Left(ctx)
		if dead = make(map[message.Reason][]string); len(given) > 0 {
			dead[givenUp] = given
		}
		return ids, dead, err
	}
	b := t.fleet.Broker()
	top := b.Topology()
	left, err := leftover.Take(ctx, b)
	dead, err2 := Dead(ctx, b)
	for _, d := range left {
		if !top.IsInbound(d.Queue) {
			ids = append(ids, d.ID)
		} else if e, err := message.DecodeEvent(d.Body); err == nil && t.users != nil {
			ids = append(ids, t.users.ids(e.ID)...)
		}
	}
	return ids, dead, errors.Join(err, err2)
}
