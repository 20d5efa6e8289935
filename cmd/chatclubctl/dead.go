package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"time"

	"chatclub/internal/app"
	"chatclub/internal/deadletter"
	"chatclub/internal/inquiry"
	"chatclub/internal/message"
	"chatclub/internal/service"
)

// deadSettings are those of `chatclubctl dead`.
type deadSettings struct {
	app.BrokerSettings
}

// About says what the program does.
func (deadSettings) About() string {
	return "chatclubctl dead works on the dead-letter queue. What it only looks at stays there.\n" +
		"Until it ends nobody else sees those letters, and another one is refused."
}

// Bounds of -rate: a letter in ten seconds, and more than any broker takes from one
// publisher.
const (
	minRate = 0.1
	maxRate = 100_000
)

// deadCall is one call of a dead command.
type deadCall struct {
	tool
	flags   *flag.FlagSet
	filter  deadletter.Filter
	id      string
	reasons string
	json    bool
}

func (t tool) newDeadCall(words string) *deadCall {
	return &deadCall{tool: t, flags: flag.NewFlagSet("chatclubctl "+words, flag.ContinueOnError)}
}

// withFilter adds the flags that say which letters are meant.
func (c *deadCall) withFilter() {
	c.flags.StringVar(&c.id, "id", "", "only letters of this `ID`")
	c.flags.StringVar(&c.reasons, "reason", "", "only letters of these `REASONS`, with commas between them; none: those that RabbitMQ put there")
	c.flags.StringVar(&c.filter.Page, "page", "", "only letters of this `PAGE`")
	c.flags.StringVar(&c.filter.Recipient, "to", "", "only letters to this person, a `PSID`")
	c.flags.DurationVar(&c.filter.Older, "older", 0, "only letters that are dead for at least so long, such as 24h")
	c.flags.DurationVar(&c.filter.Newer, "newer", 0, "only letters that are dead for at most so long")
}

// open reads flags and settings, and connects. The caller calls end. Nothing is
// declared: queues that are missing stay so.
func (c *deadCall) open(args []string, faults func() []error) (q deadletter.Queue, end func() error, err error) {
	c.flags.BoolVar(&c.json, "json", false, "print JSON, for programs")
	s, err := service.LoadFlags[deadSettings](c.flags, args, c.environ, c.stdout)
	if err != nil {
		return q, nil, err
	}
	if all := append(c.readFilter(), faults()...); len(all) > 0 {
		return q, nil, wrong(all...)
	}
	b, err := c.openBroker(s.BrokerSettings)
	if err != nil {
		return q, nil, err
	}
	return deadletter.Queue{Broker: b, Now: time.Now}, b.Close, nil
}

func (c *deadCall) readFilter() (faults []error) {
	if c.id != "" {
		c.filter.IDs = []string{c.id}
	}
	if c.filter.Older < 0 || c.filter.Newer < 0 {
		faults = append(faults, errors.New("-older and -newer must not be negative"))
	}
	reasons, err := message.ReadReasons(c.reasons)
	if wrong, ok := errors.AsType[*message.FieldError](err); ok {
		faults = append(faults, fmt.Errorf("-%s: %s", wrong.Field, wrong.Problem))
	}
	c.filter.Reasons = reasons
	return faults
}

func (t tool) deadList(ctx context.Context, _ string, args []string) (err error) {
	c := t.newDeadCall("dead list")
	c.withFilter()
	limit := c.flags.Int("limit", 100, "letters shown, the oldest first; all are counted. 0: all, as they are on the queue")
	q, end, err := c.open(args, func() []error { return notNegative(*limit) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	table := newTable(c.stdout)
	if !c.json {
		fmt.Fprintln(table, "DEAD SINCE\tREASON\tPAGE\tRECIPIENT\tCALLS\tCODES\tID\tERROR")
	}
	show := func(l deadletter.Letter) error {
		if c.json {
			return json.NewEncoder(c.stdout).Encode(l)
		}
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", inquiry.Moment(l.Time), printable(string(l.Reason)), printable(l.Page),
			printable(l.Recipient), l.Attempts, printable(codes(l)), printable(l.ID), printable(shorten(l.Error)))
		return err
	}
	first := deadletter.Oldest{Most: *limit}
	each := show
	if *limit > 0 {
		each = first.Add
	}
	counts, err := q.List(ctx, c.filter, each)
	if err != nil {
		return err
	}
	for _, l := range first.Letters {
		if err := show(l); err != nil {
			return err
		}
	}
	if c.json {
		return json.NewEncoder(c.stdout).Encode(map[string]any{"total": counts.Total(), "reasons": counts})
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "\n%s\n", sum(counts))
	if *limit > 0 && counts.Total() > *limit {
		fmt.Fprintf(c.stdout, "The oldest %d are shown; -limit 0 shows all.\n", *limit)
	}
	return nil
}

// shownError is the number of characters of an error in a list.
const shownError = 60

// shorten cuts an error for a list.
func shorten(s string) string {
	r := []rune(s)
	if len(r) <= shownError {
		return s
	}
	return string(r[:shownError-1]) + "…"
}

func (t tool) deadShow(ctx context.Context, id string, args []string) (err error) {
	c := t.newDeadCall("dead show ID")
	c.id = id
	withBody := c.flags.Bool("body", false, "print the message itself, with what its user wrote")
	q, end, err := c.open(args, func() []error { return nil })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	counts, err := q.List(ctx, c.filter, func(l deadletter.Letter) error {
		var body string
		if *withBody {
			body = string(l.Body())
		}
		if c.json {
			return json.NewEncoder(c.stdout).Encode(struct {
				deadletter.Letter
				Body string `json:"body,omitempty"`
			}{l, body})
		}
		w := newTable(c.stdout)
		for _, f := range []struct{ name, value string }{
			{"id", l.ID},
			{"dead since", inquiry.Moment(l.Time)},
			{"reason", string(l.Reason)},
			{"page", l.Page},
			{"recipient", l.Recipient},
			{"queue", l.Queue},
			{"calls", fmt.Sprint(l.Attempts)},
			{"codes", codes(l)},
			{"error", l.Error},
			{"body", body},
		} {
			if f.name != "body" || *withBody {
				fmt.Fprintf(w, "%s\t%s\n", f.name, printable(f.value))
			}
		}
		fmt.Fprintln(w)
		return w.Flush()
	})
	if err == nil && counts.Total() == 0 {
		err = fmt.Errorf("no dead letter has the id %.300q", id)
	}
	return err
}

func (t tool) deadReplay(ctx context.Context, _ string, args []string) (err error) {
	c := t.newDeadCall("dead replay")
	c.withFilter()
	var r deadletter.Replay
	c.flags.Float64Var(&r.Rate, "rate", 100, "letters a second; what is sent in a tenth of one, 64 letters at most, may be sent twice if it is killed")
	c.flags.IntVar(&r.Limit, "limit", 0, "letters at most, the oldest first; 0: all")
	c.flags.BoolVar(&r.Renew, "renew", false, "let their age begin again, and copies of broadcasts have an hour; without it a letter that is older than MESSAGE_TTL, or its broadcast's deadline, is dead as expired again")
	q, end, err := c.open(args, func() []error {
		faults := notNegative(r.Limit)
		if !(r.Rate >= minRate && r.Rate <= maxRate) { // NaN, too
			faults = append(faults, fmt.Errorf("-rate must be %g to %d", minRate, maxRate))
		}
		return faults
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	r.Filter = c.filter
	out, err := q.Replay(ctx, r)
	return errors.Join(err, c.report(done{"replayed", out.Replayed}, done{"kept", out.Kept}))
}

func (t tool) deadPurge(ctx context.Context, _ string, args []string) (err error) {
	c := t.newDeadCall("dead purge")
	c.withFilter()
	yes := c.flags.Bool("yes", false, "must be given: what is removed is gone")
	q, end, err := c.open(args, func() []error {
		if *yes {
			return nil
		}
		return []error{errors.New("-yes must be given: what is removed is gone; dead list shows what the same flags mean")}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	counts, err := q.Purge(ctx, c.filter)
	return errors.Join(err, c.report(done{"purged", counts}))
}

// done is one line of a report: the number of letters of each kind, and their fate.
type done struct {
	what   string
	counts deadletter.Counts
}

// report says what was done, also before an error.
func (c *deadCall) report(all ...done) error {
	if c.json {
		answer := make(map[string]deadletter.Counts)
		for _, d := range all {
			answer[d.what] = d.counts
		}
		return json.NewEncoder(c.stdout).Encode(answer)
	}
	for _, d := range all {
		if _, err := fmt.Fprintf(c.stdout, "%s %s\n", d.what, sum(d.counts)); err != nil {
			return err
		}
	}
	return nil
}

func notNegative(limit int) []error {
	if limit < 0 || limit > math.MaxInt32 {
		return []error{fmt.Errorf("-limit must be 0 to %d", math.MaxInt32)}
	}
	return nil
}
