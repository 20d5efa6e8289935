package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"chatclub/internal/loadtest/fleet"
	"chatclub/internal/loadtest/report"
	"chatclub/internal/loadtest/scenario"
	"chatclub/internal/loadtest/strategy"
	"chatclub/internal/loadtest/trial"
	"chatclub/internal/service"
)

// runScenarios runs one scenario after another with chatclub's dispatcher, and
// returns the exit code of their verdicts.
func runScenarios(ctx context.Context, args []string, s streams) (int, error) {
	names, flags := splitScenarios(args)
	if len(names) == 0 && asksHelp(flags) {
		commonHelp(s.out, scenario.Own)
		return service.ExitOK, nil
	}
	if len(names) == 0 {
		return 0, usagef("run: which scenario? See loadtest list")
	}
	var all []*parsed
	for _, name := range names { // all faults before the first run
		x, err := findScenario(name)
		if err != nil {
			return 0, err
		}
		p, err := parse(x, flags, scenario.Own, s.out)
		if err != nil {
			return 0, err
		}
		if len(names) > 1 && p.out != "" {
			p.out = filepath.Join(p.out, name)
		}
		all = append(all, p)
	}
	if len(names) > 1 && all[0].json != "" {
		return 0, usagef("run: -json is for one scenario; -out has a folder for each")
	}
	return runAll(ctx, args, s, "run", all)
}

// compareScenario runs a scenario with every strategy.
func compareScenario(ctx context.Context, args []string, s streams) (int, error) {
	names, flags := splitScenarios(args)
	if len(names) == 0 && asksHelp(flags) {
		commonHelp(s.out, everyStrategy)
		return service.ExitOK, nil
	}
	if len(names) != 1 {
		return 0, usagef("compare: one scenario, please; see loadtest list")
	}
	x, err := findScenario(names[0])
	if err != nil {
		return 0, err
	}
	p, err := parse(x, flags, everyStrategy, s.out)
	if err != nil {
		return 0, err
	}
	return runAll(ctx, args, s, "compare", []*parsed{p})
}

// runAll runs what was parsed. The exit code is that of the worst verdict; what
// was stopped before it began has none.
func runAll(ctx context.Context, args []string, s streams, command string, all []*parsed) (int, error) {
	for _, p := range all {
		if err := p.prepare(ctx); err != nil {
			return 0, err
		}
		for _, note := range p.leftOut {
			fmt.Fprintln(s.err, note)
		}
	}
	progress := newProgress(s.err, all[0].quiet, all)
	code := service.ExitOK
	var faults []error
	for i, p := range all {
		if ctx.Err() != nil {
			fmt.Fprintf(s.err, "loadtest: stopped before %s\n", p.scenario.Name)
			code = worse(code, exitNoVerdict)
			break
		}
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		r := p.run(ctx, p.head(command, args), progress, s)
		faults = append(faults, p.write(r, s))
		code = worse(code, exitCode(r.Verdict().Outcome))
	}
	return code, errors.Join(faults...)
}

// run runs every strategy and part. After each strategy the report is saved, so
// that what ran is there whatever ends the program.
func (p *parsed) run(ctx context.Context, r *report.Report, progress *progress, s streams) *report.Report {
	if p.broker == memoryBroker && p.target == "" {
		r.Notes = append(r.Notes, "CPU is of one process with dispatchers, broker, fake and load generator in it")
	}
	if p.common.Drain == 0 {
		r.Notes = append(r.Notes, "where messages were left on the queues, operations and CPU have what these have cost so far in them")
	}
	r.Notes = append(r.Notes, p.leftOut...)
	all := 0
	for _, info := range p.list {
		all += len(p.parts(info))
	}
	for _, info := range p.list {
		if info.Caveat != "" {
			r.Notes = append(r.Notes, info.Caveat)
		}
		runs := p.strategy(ctx, info, progress, s)
		if p.version != "" {
			r.Versions.Broker = p.version
		}
		r.Runs = append(r.Runs, runs...)
		if info.Name == scenario.Own && len(runs) == len(p.set.Parts) && !slices.ContainsFunc(runs, failed) {
			r.Expectations = append(r.Expectations, p.set.Expect(runs)...)
		}
		r.Unfinished = ""
		if len(r.Runs) < all {
			r.Unfinished = fmt.Sprintf("%d of %d runs have ended so far", len(r.Runs), all)
		}
		if ctx.Err() != nil {
			break
		}
		if len(r.Runs) < all {
			if err := p.save(r); err != nil {
				fmt.Fprintln(progress.rows, "not saved:", service.OneLine(err)) // it is tried again in the end
			}
		}
	}
	if r.Unfinished != "" && ctx.Err() != nil {
		r.Unfinished = fmt.Sprintf("stopped after %d of %d runs", len(r.Runs), all)
	}
	return r
}

func failed(run report.Run) bool { return run.Status == report.Failed }

// parts are the runs of a strategy: what others are measured against runs with
// this project's alone.
func (p *parsed) parts(info strategy.Info) (list []scenario.Part) {
	for _, part := range p.set.Parts {
		if !part.Baseline || info.Name == scenario.Own {
			list = append(list, part)
		}
	}
	return list
}

// strategy runs each part with one strategy, until one fails or ctx ends.
func (p *parsed) strategy(ctx context.Context, info strategy.Info, progress *progress, s streams) (runs []report.Run) {
	log := slog.New(slog.DiscardHandler)
	if p.verbose {
		log = slog.New(slog.NewTextHandler(progress.line.Above(s.err), nil))
	}
	for _, part := range p.parts(info) {
		which := cmp.Or(part.Strategy, info.Name)
		name := strings.TrimSuffix(which+", "+part.Label, ", ")
		progress.begin(name, part.Plan)
		run, err := trial.Run(ctx, trial.Config{
			Plan: part.Plan, Open: p.open, Strategy: which, Via: p.common.Via, Secret: p.secret, Seed: p.common.Seed,
			RedisURL: p.redis, Topology: p.topology(), Log: log, Progress: progress.show,
			Running: p.target != "", Pages: p.ids,
		})
		run.Baseline = part.Baseline
		if part.Label != "" {
			run.Label = name
		}
		if err != nil {
			run.Strategy, run.Replicas, run.Status, run.Reason = which, part.Plan.Replicas, report.Failed, service.OneLine(err)
		}
		progress.end(&run)
		runs = append(runs, run)
		if err != nil || ctx.Err() != nil {
			break
		}
	}
	return runs
}

// open makes the system that the flags ask for.
func (p *parsed) open(ctx context.Context, cfg fleet.Config) (fleet.Fleet, error) {
	if p.target != "" {
		return &fleet.Remote{Target: p.target, Ledger: p.ledger}, nil
	}
	if p.broker == memoryBroker {
		return fleet.OpenLocal(ctx, cfg)
	}
	f, err := fleet.OpenProcesses(ctx, cfg, p.broker)
	if err != nil {
		return nil, err
	}
	p.version = f.Version()
	return f, nil
}

// prepare finds out before the first run whether the files can be written that
// are written after the last, and which strategies cannot run.
func (p *parsed) prepare(ctx context.Context) error {
	var faults []error
	if p.target != "" {
		for _, part := range p.set.Parts {
			faults = append(faults, part.Plan.Deployable(ctx, cmp.Or(part.Strategy, scenario.Own)))
		}
	}
	if p.json != "" && p.json != "-" {
		if info, err := os.Stat(p.json); err == nil && info.IsDir() { //nolint:gosec // the user's own file
			faults = append(faults, fmt.Errorf("-json: %s is a folder", p.json))
		}
		faults = append(faults, writable("-json", filepath.Dir(p.json)))
	}
	if p.out != "" {
		err := os.MkdirAll(p.out, 0o755) //nolint:gosec // documents that anybody may read
		if err != nil {
			err = fmt.Errorf("-out: %w", err)
		} else {
			err = writable("-out", p.out)
		}
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return usageError{fmt.Errorf("%s: %w", p.scenario.Name, err)}
	}
	p.leaveOut(ctx)
	return nil
}

// leaveOut takes the strategies from the list that need a Redis server, where
// none answers, and notes why.
func (p *parsed) leaveOut(ctx context.Context) {
	needsRedis := func(info strategy.Info) bool { return info.NeedsRedis }
	if !slices.ContainsFunc(p.list, needsRedis) {
		return
	}
	var err error
	if p.redisVersion, err = strategy.RedisVersion(ctx, p.redis); err == nil {
		return
	}
	for _, info := range p.list {
		if info.NeedsRedis {
			p.leftOut = append(p.leftOut, fmt.Sprintf("%s is left out: it needs a Redis server (-redis ADDRESS): %v", info.Name, err))
		}
	}
	p.list = slices.DeleteFunc(p.list, needsRedis)
}

// parameters are the scenario's flags, as they were.
func (p *parsed) parameters() []report.Parameter {
	hidden := []string{"json", "out", "quiet", "verbose", "secret", "broker", "redis", "target", "ledger", "pages-file", "prefix", "strategies"}
	var list []report.Parameter
	p.flags.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(hidden, f.Name) {
			list = append(list, report.Parameter{Name: f.Name, Value: f.Value.String()})
		}
	})
	return list
}
