package main

import (
	"context"
	"fmt"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/users"
)

// chat is the run of the simulated users.
type chat struct {
	program
	api   *fakeapi.API
	users *users.Users
	final balance // when they have ended
}

func newChat(p program, api *fakeapi.API, people *users.Users) *chat {
	return &chat{program: p, api: api, users: people}
}

// run lets them join and chat, waits for the awaited ids and prints the last
// line. It returns then with EXIT, otherwise when ctx ends.
func (c *chat) run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- c.play(ctx) }()
	var report <-chan time.Time
	if c.settings.ReportEvery > 0 {
		t := time.NewTicker(c.settings.ReportEvery)
		defer t.Stop()
		report = t.C
	}
	for {
		select {
		case <-report:
			c.report(ctx)
		case err := <-done:
			c.final = balance{c.api.Ledger().Totals(), c.users.Counts().Undelivered}
			fmt.Fprintln(c.stdout, line(c.final.Counts))
			if err != nil || c.settings.Exit {
				return err
			}
			<-ctx.Done()
			return nil
		}
	}
}

func (c *chat) play(ctx context.Context) error {
	if err := c.users.Join(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ending ctx is how a run without end is ended
	}
	c.log.InfoContext(ctx, "users joined", "users", c.users.Counts().Joined)
	if err := c.users.Chat(ctx, c.settings.Duration); err != nil {
		return err
	}
	c.log.InfoContext(ctx, "chat ended")
	c.users.Settle(ctx, c.settings.SettleTimeout)
	return nil
}

func (c *chat) report(ctx context.Context) {
	t, n := c.api.Ledger().Totals(), c.users.Counts()
	c.log.InfoContext(ctx, "ledger", "events", t.Events, "expected", t.Expected, "accepted", t.Accepted, "refused", t.Refused,
		"errors", t.Errors, "awaited", t.Pending, "duplicated", t.Duplicated, "unexpected", t.Unexpected,
		"undelivered", n.Undelivered, "skipped", n.Skipped, "alerts", n.Alerts, "answer_p99", n.AnswerP99)
}

// line returns the ledger in one line.
func line(c ledger.Counts) string {
	return fmt.Sprintf("events %d expected %d accepted %d refused %d lost %d duplicated %d unexpected %d",
		c.Events, c.Expected, c.Accepted, c.Refused, c.Lost, c.Duplicated, c.Unexpected)
}

// balance is the counts by which the run is judged.
type balance struct {
	ledger.Counts
	undelivered int64 // events that the system never took
}

// check returns an error when b shows that the system under test is wrong.
func (b balance) check() error {
	if b.Lost == 0 && b.Duplicated == 0 && b.Unexpected == 0 && b.Unidentified == 0 && b.undelivered == 0 && b.Accepted > 0 {
		return nil
	}
	return fmt.Errorf("the ledger does not balance: lost %d, duplicated %d, unexpected %d, without id %d of %d accepted; %d events not taken",
		b.Lost, b.Duplicated, b.Unexpected, b.Unidentified, b.Accepted, b.undelivered)
}
