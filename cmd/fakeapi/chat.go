package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/users"
)

// chat is the run of the simulated users.
type chat struct {
	program
	api   *fakeapi.API
	users *users.Users
	fault error // of the system under test, when the run has ended
}

func newChat(p program, api *fakeapi.API, people *users.Users) *chat {
	return &chat{program: p, api: api, users: people}
}

// run lets them join and chat, waits for the awaited ids and prints the last
// line. It returns then with EXIT, otherwise when ctx ends.
func (c *chat) run(ctx, again context.Context) error {
	done := make(chan error, 1)
	go func() { done <- c.play(ctx, again) }()
	var report <-chan time.Time
	if c.settings.ReportEvery > 0 {
		t := time.NewTicker(c.settings.ReportEvery)
		defer t.Stop()
		report = t.C
	}
	joined := c.users.Joined()
	for {
		select {
		case <-joined:
			c.log.InfoContext(ctx, "users joined", "users", c.users.Counts().Joined)
			joined = nil
		case <-report:
			c.report(ctx)
		case err := <-done:
			if err != nil || c.settings.Exit {
				return err
			}
			<-ctx.Done()
			return nil
		}
	}
}

// play lets the users chat and prints the balance. After a run that was asked to
// stop, what is still awaited may be on its way: it is not judged.
func (c *chat) play(ctx, again context.Context) error {
	whole, err := c.users.Play(ctx, again, users.PlayOptions{
		Duration: c.settings.Duration, Settle: c.settings.SettleTimeout,
		Say: func(line string) { fmt.Fprintln(c.stdout, line) },
	})
	counts, pending := c.api.Ledger().Totals(), "lost"
	if !whole {
		pending, counts.Lost = "awaited", 0
	}
	fmt.Fprintln(c.stdout, counts.Line(pending))
	c.fault = counts.Err()
	if whole && counts.Accepted == 0 {
		c.fault = errors.Join(c.fault, errors.New("nothing was accepted"))
	}
	if n := c.users.Counts().Undelivered; whole && n > 0 {
		c.fault = errors.Join(c.fault, fmt.Errorf("%d events were not taken", n))
	}
	return err
}

func (c *chat) report(ctx context.Context) {
	t, n := c.api.Ledger().Totals(), c.users.Counts()
	c.log.InfoContext(ctx, "ledger", "events", t.Events, "expected", t.Expected, "accepted", t.Accepted, "refused", t.Refused,
		"errors", t.Errors, "awaited", t.Pending, "duplicated", t.Duplicated, "unexpected", t.Unexpected,
		"undelivered", n.Undelivered, "skipped", n.Skipped, "alerts", n.Alerts)
}
