package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"chatclub/internal/service"
	"chatclub/internal/tools/private"
	"chatclub/loadtest/faults"
	"chatclub/loadtest/faults/deployment"
	"chatclub/loadtest/report"
)

// faultOptions are the flags of `loadtest faults`.
type faultOptions struct {
	list     bool
	names    string
	seed     uint64
	length   time.Duration
	steps    int
	patience time.Duration
	load     faults.Load
	nodes    int
	broker   string
	rabbitmq string
	database string
	bin      string
	logs     string
	out      string
	quiet    bool
}

func (o *faultOptions) add(fs *flag.FlagSet) {
	fs.BoolVar(&o.list, "list", false, "print the faults with their bounds, and make none")
	fs.StringVar(&o.names, "faults", "*", "which to make, separated by commas; kill-* is all that begin so")
	fs.Uint64Var(&o.seed, "seed", 1, "of the script: equal seeds make the same faults in the same order")
	fs.DurationVar(&o.length, "for", 30*time.Minute, "how long faults are begun, such as 30m or 6h; a round of all takes some 20 minutes")
	fs.IntVar(&o.steps, "steps", 0, "faults to make at most; 0: any number")
	fs.DurationVar(&o.patience, "patience", 3*time.Minute, "how long a copy may be awaited after a fault before it counts as lost")
	fs.IntVar(&o.load.Pages, "pages", 4, "pages, each with one room")
	fs.IntVar(&o.load.Members, "members", 20, "members of a room")
	fs.Float64Var(&o.load.Events, "events", 4, "messages that all members write in a second")
	fs.IntVar(&o.nodes, "nodes", 3, "nodes of the RabbitMQ that is started for the run, 1 or 3")
	fs.StringVar(&o.broker, "broker", "", "use the RabbitMQ at this address, amqp://…; its nodes are left alone")
	fs.StringVar(&o.rabbitmq, "rabbitmq", "", "folder of the rabbitmq-server and rabbitmqctl to start; empty: the installed one's")
	fs.StringVar(&o.database, "database", "", "a PostgreSQL, postgres://…; empty: one is found or started, as for the tests")
	fs.StringVar(&o.bin, "bin", "", "folder of the programs; empty: they are built")
	fs.StringVar(&o.logs, "logs", "", "folder for what the programs print; empty: it is kept only if the verdict is not PASS")
	fs.StringVar(&o.out, "out", "", "folder to write report.md and faults.json into")
	fs.BoolVar(&o.quiet, "quiet", false, "no progress on standard error")
}

// validate names every faulty flag.
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
	check(o.load.Pages >= 1 && o.load.Pages <= 1000, "-pages: %d must be 1 to 1000", o.load.Pages)
	check(o.load.Members >= 2 && o.load.Members <= 100, "-members: %d must be 2 to 100", o.load.Members)
	check(o.load.Events > 0 && o.load.Events <= 1000, "-events: %g must be above 0 and at most 1000", o.load.Events)
	check(o.nodes == 1 || o.nodes == 3, "-nodes: %d must be 1 or 3", o.nodes)
	check(o.broker == "" || o.rabbitmq == "", "-broker, -rabbitmq: one of them")
	if o.broker != "" {
		o.nodes = 0
	}
	return errors.Join(wrong...)
}

// clocks says what no run of ours can make.
const clocks = "clock jumps: a program's clock cannot be set apart from the machine's; the packages' tests run on clocks of their own"

// makeFaults makes a deployment fail, and writes what it cost.
func makeFaults(ctx context.Context, args []string, s streams) (code int, err error) {
	var o faultOptions
	fs := flag.NewFlagSet("faults", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o.add(fs)
	if err := parseFlags(fs, args, "faults [flags]", s.out); err != nil {
		return 0, err
	}
	if fs.NArg() > 0 {
		return 0, usagef("faults: unexpected argument %.40q", fs.Arg(0))
	}
	if o.list {
		return service.ExitOK, faults.WriteTable(s.out)
	}
	if err := o.validate(); err != nil {
		return 0, usageError{fmt.Errorf("faults: %w", err)}
	}
	can, cannot, err := faults.Select(o.names, o.nodes)
	if err != nil {
		return 0, usageError{err}
	}
	if o.out != "" {
		if err := writable("-out", filepath.Dir(filepath.Clean(o.out))); err != nil {
			return 0, usageError{err}
		}
	}
	if o.nodes > 0 && o.rabbitmq == "" {
		if o.rabbitmq, err = private.RabbitMQ(); err != nil {
			return 0, usagef("faults: %w: install it, or name a broker by -broker", err)
		}
	}
	rep, err := o.run(ctx, can, s)
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(s.err, "loadtest: NO VERDICT: stopped before the first fault:", service.OneLine(err))
		return exitNoVerdict, nil //nolint:nilerr // it is told, and no failure
	case err != nil:
		return 0, err
	}
	rep.Command = commandLine("faults", args)
	rep.LeftOut = []string{clocks}
	for _, name := range cannot {
		rep.LeftOut = append(rep.LeftOut, name+": needs more nodes of a broker of the run's own")
	}
	return o.write(rep, s)
}

// run starts the deployment, plays the script, and takes everything down.
func (o *faultOptions) run(ctx context.Context, can []faults.Fault, s streams) (rep *faults.Report, err error) {
	say := func(line string) {
		if !o.quiet {
			fmt.Fprintln(s.err, time.Now().Format(time.TimeOnly), line)
		}
	}
	logs := o.logs
	if logs == "" {
		if logs, err = os.MkdirTemp("", "chatclub-faults-logs-"); err != nil {
			return nil, fmt.Errorf("make a folder for the logs: %w", err)
		}
		defer func() {
			if err == nil && rep.Outcome == faults.Pass {
				err = os.RemoveAll(logs)
			} else if os.Remove(logs) != nil { // it is not empty
				fmt.Fprintln(s.err, "what the programs printed:", logs)
			}
		}()
	}
	d, err := deployment.Start(ctx, deployment.Config{
		Bin: o.bin, RabbitMQ: o.rabbitmq, Nodes: o.nodes, Broker: o.broker, Database: o.database, Logs: logs, Load: o.load, Say: say,
	})
	if d != nil {
		defer func() { err = errors.Join(err, d.Close()) }() //nolint:contextcheck // what was started ends, whatever ctx says
	}
	if err != nil {
		return nil, err
	}
	rep, err = faults.Run(ctx, faults.Config{
		System: d, Ledger: d.Judge(), Faults: can, Seed: o.seed, For: o.length, Steps: o.steps, Patience: o.patience, Load: o.load, Say: say,
	})
	if err != nil {
		return nil, err
	}
	m, v := report.ThisMachine(), report.ThisBuild()
	rep.Broker, rep.Revision = d.Broker(), v.Chatclub
	rep.Machine = fmt.Sprintf("%d processors of %s, %s", m.CPUs, m.CPU, v.Go)
	return rep, nil
}

// write prints the verdict, and the report where it is asked for.
func (o *faultOptions) write(rep *faults.Report, s streams) (code int, err error) {
	for i, reason := range rep.Reasons {
		if i == 0 {
			fmt.Fprintf(s.out, "%s: %s\n", rep.Outcome, reason)
		} else {
			fmt.Fprintf(s.out, "  %s\n", reason)
		}
	}
	if o.out == "" {
		fmt.Fprintln(s.out)
		if err := rep.WriteMarkdown(s.out); err != nil {
			return 0, err
		}
	} else {
		if err := rep.Save(o.out); err != nil {
			return 0, err
		}
		fmt.Fprintln(s.out, "report:", filepath.Join(o.out, "report.md"))
	}
	return exitCode(report.Outcome(rep.Outcome)), nil
}
