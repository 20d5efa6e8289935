package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// crew are the dispatchers that are processes, in the order in which they joined.
// The zero value has none. Safe for concurrent use.
type crew struct {
	mu      sync.Mutex
	running []*process
	past    []*process
}

func (c *crew) add(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = append(c.running, p)
}

// joined is how many there were so far.
func (c *crew) joined() int { return len(c.all()) }

// all are those that have ended, and those that run.
func (c *crew) all() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(c.past, c.running)
}

func (c *crew) take(place int) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := take(&c.running, place)
	if err == nil {
		c.past = append(c.past, p)
	}
	return p, err
}

// Leave stops the second oldest by SIGTERM.
func (c *crew) Leave(ctx context.Context) error { return c.leave(ctx, second) }

// Retire stops the oldest by SIGTERM.
func (c *crew) Retire(ctx context.Context) error { return c.leave(ctx, oldest) }

func (c *crew) leave(ctx context.Context, place int) error {
	p, err := c.take(place)
	if err != nil {
		return err
	}
	return p.stop(ctx)
}

// Kill kills the oldest.
func (c *crew) Kill(ctx context.Context) error {
	p, err := c.take(oldest)
	if err != nil {
		return err
	}
	p.close(ctx)
	return p.kill()
}

// stop stops those that run, all at once.
func (c *crew) stop(ctx context.Context) error {
	var faults []error
	var leaving sync.WaitGroup
	var mu sync.Mutex
	for {
		p, err := c.take(oldest)
		if err != nil {
			break
		}
		leaving.Go(func() {
			err := p.stop(ctx)
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, err)
		})
	}
	leaving.Wait()
	return errors.Join(faults...)
}
