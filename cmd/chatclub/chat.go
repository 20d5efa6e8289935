package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/internal/demo"
)

// chat lets the simulated users chat, and prints how that goes.
type chat struct {
	crowd  *demo.Crowd
	api    *fakeapi.API
	ready  func(context.Context) error
	length time.Duration // of the chat; 0: until ctx ends
	settle time.Duration
	out    io.Writer

	counts ledger.Counts // at the end
	events int64
}

// run lets the users join and chat, then waits until every copy has arrived
// or the settle time is over. It prints a line every second.
func (c *chat) run(ctx context.Context) error {
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	began := time.Now()
	done := make(chan error, 1)
	go func() {
		err := c.crowd.Run(ctx, c.length)
		// Not ended by ctx: a run that is stopped has a balance too.
		c.crowd.Settle(context.WithoutCancel(ctx), c.settle)
		done <- err
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(c.out, "%s  %s\n", clock(time.Since(began)), c.line("awaited"))
		case err := <-done:
			c.line("")
			return err
		}
	}
}

// startTimeout is how long the system may take to become ready: a RabbitMQ
// that is just starting needs about ten seconds.
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
			fmt.Fprintln(c.out, "waiting:", strings.ReplaceAll(err.Error(), "\n", "; "))
			said = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// balance prints the last line. It is an error if the ledger does not balance.
func (c *chat) balance() error {
	fmt.Fprintln(c.out, c.line("lost"))
	var errs []error
	for _, f := range []struct {
		name  string
		count int64
	}{{"lost", c.counts.Lost}, {"duplicated", c.counts.Duplicated}, {"unexpected", c.counts.Unexpected}} {
		if f.count > 0 {
			errs = append(errs, fmt.Errorf("%d %s", f.count, f.name))
		}
	}
	if c.counts.Accepted == 0 {
		errs = append(errs, errors.New("nothing was sent"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("the ledger does not balance: %w", errors.Join(errs...))
	}
	return nil
}

// line returns the balance as it stands. pending names the copies that have not
// arrived: awaited while they may still come, lost at the end.
func (c *chat) line(pending string) string {
	c.counts = c.api.Ledger().Totals()
	c.events = c.crowd.Events()
	return fmt.Sprintf("events %d copies %d sent %d refused %d %s %d duplicated %d",
		c.events, c.counts.Expected, c.counts.Accepted, c.counts.Refused, pending, c.counts.Pending, c.counts.Duplicated)
}

// clock returns a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}
