package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"time"

	"chatclub/internal/service"
	"chatclub/loadtest/faults"
	"chatclub/loadtest/report"
	"chatclub/tools/private"
)

// faultOptions are the flags of `loadtest faults`.
type faultOptions struct {
	faults.Options
	list     bool
	names    string
	length   time.Duration
	steps    int
	patience time.Duration
	out      string
	quiet    bool
}

func (o *faultOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("faults", flag.ContinueOnError)
	fs.BoolVar(&o.list, "list", false, "print the faults with their bounds, and make none")
	fs.StringVar(&o.names, "faults", "*", "which to make, separated by commas; kill-* is all that begin so")
	fs.Uint64Var(&o.Seed, "seed", 1, "of the script: equal seeds make the same faults in the same order")
	fs.DurationVar(&o.length, "for", 30*time.Minute, "how long faults are begun, such as 30m or 6h; a round of all takes some 20 minutes")
	fs.IntVar(&o.steps, "steps", 0, "faults to make at most; 0: any number")
	fs.DurationVar(&o.patience, "patience", 3*time.Minute, "how long a copy may be awaited after a fault before it counts as lost")
	fs.IntVar(&o.Load.Pages, "pages", 4, "pages, each with one room")
	fs.IntVar(&o.Load.Members, "members", 20, "members of a room")
	fs.Float64Var(&o.Load.Events, "events", 4, "messages that all members write in a second")
	fs.IntVar(&o.Nodes, "nodes", 3, "nodes of the RabbitMQ that is started for the run, 1 or 3")
	fs.StringVar(&o.Broker, "broker", "", "use the RabbitMQ at this address, amqp://…; its nodes are left alone")
	fs.StringVar(&o.Database, "database", "", "a PostgreSQL, postgres://…; empty: one is found or started, as for the tests")
	fs.StringVar(&o.out, "out", "", "folder to write report.html, report.json and report.md into")
	fs.BoolVar(&o.quiet, "quiet", false, "no progress on standard error")
	return fs
}

// validate names every flag that is wrong.
func (o *faultOptions) validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(o.length > 0, "-for: %v must be above 0", o.length)
	check(o.steps >= 0, "-steps: %d must not be negative", o.steps)
	check(o.patience >= time.Second, "-patience: %v must be 1s at least", o.patience)
	check(o.Load.Pages >= 1 && o.Load.Pages <= 1000, "-pages: %d must be 1 to 1000", o.Load.Pages)
	check(o.Load.Members >= 2 && o.Load.Members <= 100, "-members: %d must be 2 to 100", o.Load.Members)
	check(o.Load.Events > 0 && o.Load.Events <= 1000, "-events: %g must be above 0 and at most 1000", o.Load.Events)
	check(o.Nodes == 1 || o.Nodes == 3, "-nodes: %d must be 1 or 3", o.Nodes)
	if o.Broker != "" {
		o.Nodes = 0
		u, err := url.Parse(o.Broker)
		check(err == nil && u.Scheme == "amqp" && u.Host != "", "-broker: not an address such as amqp://guest:guest@127.0.0.1:5672/")
	}
	return errors.Join(append(wrong, writable(o.out))...)
}

// clocks says what no run of ours can make.
const clocks = "left out: clock jumps, because a program's clock cannot be set apart from the machine's; the packages' tests run on clocks of their own"

// makeFaults makes a deployment fail, and writes what it cost.
func makeFaults(ctx context.Context, args []string, s streams) (code int, err error) {
	var o faultOptions
	names, err := parse(o.flags(), args, "faults [flags]", s.out)
	switch {
	case err != nil:
		return 0, err
	case len(names) > 0:
		return 0, usagef("faults: unexpected argument %.40q", names[0])
	case o.list:
		return service.ExitOK, faults.WriteTable(s.out)
	}
	if err := o.validate(); err != nil {
		return 0, usageError{fmt.Errorf("faults: %w", err)}
	}
	can, cannot, err := faults.Select(o.names, o.Nodes)
	if err != nil {
		return 0, usageError{err}
	}
	if o.Nodes > 0 {
		if _, err = private.RabbitMQ(ctx, s.err); err != nil {
			return 0, usagef("faults: %w: install it, or name a broker by -broker", err)
		}
	}
	r, err := o.run(ctx, can, s.err)
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(s.err, "loadtest: NO VERDICT: stopped before the first fault:", service.OneLine(err))
		return exitNoVerdict, nil //nolint:nilerr // it is told, and no failure
	case err != nil:
		return 0, err
	}
	r.Command, r.Notes = commandLine("faults", args), append(r.Notes, clocks)
	for _, name := range cannot {
		r.Notes = append(r.Notes, "left out: "+name+" needs more nodes of a broker of the run's own")
	}
	err = report.WriteTable(s.out, r)
	if o.out != "" {
		err = errors.Join(err, report.Save(o.out, r))
		fmt.Fprintln(s.out, "report:", o.out)
	}
	return exitCode(r), err
}

// run starts the deployment, plays the script, and takes everything down.
func (o *faultOptions) run(ctx context.Context, can []faults.Fault, progress io.Writer) (r *report.Report, err error) {
	o.Say = func(line string) {
		if !o.quiet {
			fmt.Fprintln(progress, time.Now().Format(time.TimeOnly), line)
		}
	}
	d, err := faults.Start(ctx, o.Options)
	if d != nil {
		defer func() {
			passed := r != nil && r.Verdict().Outcome == report.Pass
			if err = errors.Join(err, d.Close(context.WithoutCancel(ctx), passed)); !passed {
				fmt.Fprintln(progress, "what the programs printed:", d.Logs())
			}
		}()
	}
	if err != nil {
		return nil, err
	}
	r, err = faults.Run(ctx, faults.Config{
		System: d, Ledger: d.Judge(), Faults: can, Seed: o.Seed, For: o.length, Steps: o.steps, Patience: o.patience, Load: o.Load, Say: o.Say,
	})
	if err != nil {
		return nil, err
	}
	r.Versions, r.Machine = report.ThisBuild(), report.ThisMachine()
	r.Versions.Broker = d.Broker()
	return r, nil
}
