package partitions

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

const (
	// TrialTime is the time for which a newcomer stays behind all others: a newcomer
	// that crashes again and again takes nothing from them.
	TrialTime = 5 * time.Second
	// trialRank is the amount by which a newcomer's priorities are lower on trial, more
	// than any of them.
	trialRank = 1 << 32
	// SlotCheck is the period of checking whether others have taken the same slot: after
	// a lost connection they may.
	SlotCheck = 10 * time.Second

	// slotTime is the time for a new consumer of a slot's queue to be seen by others
	// that take the same slot.
	slotTime = 50 * time.Millisecond
	// slotPause bounds the random pause of those that have met.
	slotPause = 300 * time.Millisecond
	// failPause is the same after an error of the broker.
	failPause = time.Second
	// takeTime bounds one try to take a slot, and askTime a question to the broker in it.
	takeTime = 5 * time.Second
	askTime  = time.Second
	// draws is the number of draws of a slot's priorities. The slot has the draw that
	// suits the slots before it.
	draws = 64
)

// Place is a replica's place among the others: the number of its slot, which decides on
// its priorities. The zero value is no place.
type Place struct {
	Slot  int
	Ranks []int              // priorities, by partition
	Sub   queue.Subscription // of the slot's queue; nil: all are taken
}

// Config is the configuration of a replica's place. All fields but Watch must be set.
type Config struct {
	Broker queue.Broker
	Slots  []string // queues that number the replicas of a program
	Log    *slog.Logger
	Random func() float64 // [0, 1), safe for concurrent use
	Watch  *Watch         // gets the answers that come to the slot; may be nil
}

// Find takes a place, however long that takes. alone reports that there is no other
// replica. ok is false if quit is closed before.
func (c Config) Find(quit <-chan struct{}) (p Place, alone, ok bool) {
	sick := -1 // a slot that did not show its consumer
	for {
		ctx, cancel := context.WithTimeout(context.Background(), takeTime)
		p, alone, err := c.take(ctx, sick)
		cancel()
		if err == nil {
			return p, alone, true
		}
		pause := failPause
		if errors.Is(err, errSlotTaken) {
			pause = slotPause
		} else {
			sick = p.Slot
			c.Log.Warn("no slot among the replicas yet", "err", err)
		}
		select {
		case <-time.After(time.Duration(c.Random() * float64(pause))):
		case <-quit:
			return Place{}, false, false
		}
	}
}

// errSlotTaken says that another replica has taken the same slot.
var errSlotTaken = errors.New("another replica has taken the same slot")

// take subscribes to the first queue among those of the slots that nobody consumes. One
// that does not answer, or did not show the consumer before, counts as taken: a queue
// without a leader looks as if nobody consumed it.
func (c Config) take(ctx context.Context, sick int) (p Place, alone bool, err error) {
	alone, p.Slot = true, -1
	var last error
	for i, name := range c.Slots {
		info, err := c.inspect(ctx, name)
		switch {
		case err != nil:
			alone, last = false, err
		case info.Consumers > 0 || i == sick:
			alone = false
		case p.Slot < 0:
			p.Slot = i
		}
	}
	if p.Slot < 0 && last != nil {
		return p, false, last
	}
	if p.Slot < 0 {
		p.Slot = len(c.Slots) + rand.IntN(1<<20)
	} else if p.Sub, err = c.consume(ctx, c.Slots[p.Slot]); err != nil {
		return p, false, err
	} else {
		c.Watch.follow(c.Slots[p.Slot], p.Sub)
	}
	p.Ranks = Priorities(p.Slot, len(c.Slots), c.Broker.Topology().Partitions)
	return p, alone, nil
}

func (c Config) inspect(ctx context.Context, name string) (queue.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return c.Broker.Inspect(ctx, name)
}

// consume subscribes to a slot's queue, unless another replica does so meanwhile.
func (c Config) consume(ctx context.Context, name string) (queue.Subscription, error) {
	sub, err := c.Broker.Consume(name, queue.ConsumeOptions{Prefetch: 1})
	if err != nil {
		return nil, err
	}
	for {
		if !backoff.Sleep(ctx, slotTime) {
			return nil, errors.Join(ctx.Err(), sub.Close())
		}
		switch info, err := c.Broker.Inspect(ctx, name); {
		case err != nil:
			return nil, errors.Join(err, sub.Close())
		case info.Consumers == 1:
			return sub, nil
		case info.Consumers > 1:
			return nil, errors.Join(errSlotTaken, sub.Close())
		}
	}
}

// IsTaken reports whether another replica has taken the slot of p, too.
func (c Config) IsTaken(ctx context.Context, p Place) (bool, error) {
	if p.Sub == nil {
		return false, nil
	}
	info, err := c.inspect(ctx, c.Slots[p.Slot])
	return info.Consumers > 1, err
}

// Close gives the slot up.
func (p Place) Close() {
	if p.Sub != nil {
		_ = p.Sub.Close() // it holds nothing
	}
}

// Priority is that of the replica's subscription of a partition.
func (p Place) Priority(partition int, trial bool) int {
	if trial {
		return p.Ranks[partition] - trialRank
	}
	return p.Ranks[partition]
}

// Priorities returns those of a slot for each partition. Each slot has those of 64
// draws with which it takes about equal parts from the slots before it. So whichever
// replica has a slot, it computes the same, and knows nothing of the others.
func Priorities(slot, slots, partitions int) []int {
	if slot >= slots { // more replicas than slots
		return draw(slot, 0, partitions)
	}
	top, owners := make([]int, partitions), make([]int, partitions)
	for s := 0; ; s++ {
		var best []int
		least := math.MaxInt
		for i := range draws {
			ranks := draw(s, i, partitions)
			if n := unevenness(ranks, top, owners, s); n < least {
				best, least = ranks, n
			}
		}
		if s == slot {
			return best
		}
		for p, rank := range best {
			if rank > top[p] {
				top[p], owners[p] = rank, s
			}
		}
	}
}

// draw returns one draw of a slot's priorities, which are positive. They must not
// resemble each other, as hashes of numbers that differ in a digit may: then one slot
// would be the first in ten partitions at once.
func draw(slot, n, partitions int) []int {
	random := rand.New(rand.NewPCG(uint64(slot), uint64(n))) //nolint:gosec // the same everywhere, and no secret
	ranks := make([]int, partitions)
	for p := range ranks {
		ranks[p] = int(random.Int32()) + 1
	}
	return ranks
}

// unevenness is the sum of the squares of the parts that the slots up to s have, where
// s has these priorities and the others the highest in top.
func unevenness(ranks, top, owners []int, s int) (sum int) {
	parts := make([]int, s+1)
	for p, rank := range ranks {
		if rank > top[p] {
			parts[s]++
		} else {
			parts[owners[p]]++
		}
	}
	for _, n := range parts {
		sum += n * n
	}
	return sum
}
