package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"chatclub/internal/service"
	"chatclub/loadtest/faults"
	"chatclub/loadtest/report"
	"chatclub/tools/private"
)

// faultOptions are the flags of `loadtest faults`.
type faultOptions struct {
	faults.Options
	list   bool
	names  string
	length time.Duration
	out    string
}

func (o *faultOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("faults", flag.ContinueOnError)
	fs.BoolVar(&o.list, "list", false, "print the faults with their bounds, and make none")
	fs.StringVar(&o.names, "faults", "*", "which to make, separated by commas; kill-* is all that begin so")
	fs.Uint64Var(&o.Seed, "seed", 1, "of the script: equal seeds make the same faults in the same order")
	fs.DurationVar(&o.length, "for", 30*time.Minute, "how long faults are begun, such as 30m or 6h; a round of all takes some 20 minutes")
	fs.StringVar(&o.out, "out", "", "folder to write report.html and report.json into")
	return fs
}

// makeFaults makes a deployment fail, and writes what it cost.
func makeFaults(ctx context.Context, args []string, s streams) (code int, err error) {
	var o faultOptions
	fs := o.flags()
	err = parse(fs, args, "faults [flags]", s.out)
	switch {
	case err != nil:
		return 0, err
	case o.list:
		return service.ExitOK, faults.WriteTable(s.out)
	}
	list, err := faults.Select(o.names)
	if err := errors.Join(err, writable(o.out)); err != nil {
		return 0, usageError{err}
	}
	if _, err = private.RabbitMQ(ctx, s.err); err != nil {
		return 0, usagef("faults: %w", err)
	}
	r, err := o.run(ctx, list, s.err)
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(s.err, "loadtest: NO VERDICT: stopped before the first fault:", service.OneLine(err))
		return exitNoVerdict, nil //nolint:nilerr // it is told, and no failure
	case err != nil:
		return 0, err
	}
	r.Command = commandLine(fs)
	return exitCode(r), write(s.out, r, o.out)
}

// run starts the deployment, plays the script, and takes everything down.
func (o *faultOptions) run(ctx context.Context, list []faults.Fault, progress io.Writer) (r *report.Report, err error) {
	o.Say = func(line string) { fmt.Fprintln(progress, time.Now().Format(time.TimeOnly), line) }
	d, err := faults.Start(ctx, o.Options)
	if d != nil {
		defer func() {
			passed := r != nil && r.Verdict().Outcome == report.Pass
			if err = errors.Join(err, d.Close(passed)); !passed {
				fmt.Fprintln(progress, "what the programs printed:", d.Logs())
			}
		}()
	}
	if err != nil {
		return nil, err
	}
	r, err = faults.Run(ctx, faults.Config{
		System: d, Ledger: d.Judge, Faults: list, Seed: o.Seed, For: o.length, Load: faults.UsualLoad, Say: o.Say,
	})
	if err != nil {
		return nil, err
	}
	r.Parameters = append(r.Parameters, report.Parameter{Name: "broker", Value: d.Broker()})
	return r, nil
}
