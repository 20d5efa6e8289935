package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/users"
	"chatclub/internal/backoff"
	"chatclub/internal/demo"
	"chatclub/internal/service"
)

// logEvery is the time between two lines of a run.
const logEvery = 10 * time.Second

// chat lets the simulated users chat, and prints how that goes.
type chat struct {
	crowd *demo.Crowd
	api   *fakeapi.API
	ready func(context.Context) error
	// explained returns the number of copies doubled as a visitor killed a dispatcher.
	explained func() int64
	say       func(line string) // on the page

	length time.Duration // of the chat; 0: until ctx ends
	settle time.Duration
	out    io.Writer
	begun  string // printed when every part is ready

	whole bool // the run was not asked to stop
}

// run lets the users join and chat, then waits for their messages to arrive: see
// users.Play for again. Every ten seconds it prints a line.
func (c *chat) run(ctx, again context.Context) error {
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	fmt.Fprintln(c.out, c.begun)
	began := time.Now()
	done := make(chan error, 1)
	go func() {
		var err error
		c.whole, err = c.crowd.Play(ctx, again, users.PlayOptions{
			Duration: c.length, Settle: c.settle,
			Say: func(line string) {
				fmt.Fprintln(c.out, line)
				c.say(line)
			},
		})
		done <- err
	}()
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintln(c.out, clock(time.Since(began))+"  "+c.api.Ledger().Totals().Line("awaited"))
		case err := <-done:
			return err
		}
	}
}

// startTimeout bounds the start of the system: a RabbitMQ that is just starting needs
// about ten seconds.
const startTimeout = 30 * time.Second

// awaitReady returns nil when every part is ready, or ctx has ended.
func (c *chat) awaitReady(ctx context.Context) error {
	end := time.Now().Add(startTimeout)
	said := false
	for {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to stop, there is nothing to wait for
		}
		err := c.ready(ctx)
		switch {
		case err == nil:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("not ready within %v: %w", startTimeout, err)
		case !said && time.Now().After(end.Add(2*time.Second-startTimeout)):
			fmt.Fprintln(c.out, "waiting:", service.OneLine(err))
			said = true
		}
		backoff.Sleep(ctx, 50*time.Millisecond)
	}
}

// rest counts the copies that were still awaited when every part had ended, by the
// place where they are.
type rest struct {
	left int // on the queues
	dead int // on the dead-letter queue, each with a reason
}

// balance prints the last line. It returns an error when the ledger shows that a
// copy is lost, doubled or unexpected, or that one was not sent in time although
// nobody asked to stop.
func (c *chat) balance(r rest) error {
	counts := c.api.Ledger().Totals()
	// They were excused, and are named by their fate.
	counts.Expected += int64(r.left + r.dead)
	counts.Excused -= int64(r.left + r.dead)
	fmt.Fprintf(c.out, "%s left on queues %d dead %d\n", counts.Line("lost"), r.left, r.dead)
	counts.Duplicated -= c.explained()
	err := counts.Err()
	if c.whole && counts.Accepted == 0 {
		err = errors.Join(err, errors.New("nothing was accepted"))
	}
	if c.whole && r.left > 0 {
		err = errors.Join(err, fmt.Errorf("%d copies were left on the queues: none had been sent for %v", r.left, c.settle))
	}
	return err
}

// clock returns a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}
