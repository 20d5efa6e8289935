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
	"time"

	"chatclub/internal/service"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/report"
	"chatclub/loadtest/scenario"
	"chatclub/loadtest/strategy"
	"chatclub/loadtest/trial"
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
		for _, note := range slices.Concat(p.ranOn, p.leftOut) {
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

// run runs every strategy and part, as often as it is to. The strategies take
// turns, there and back, so that a machine that grows slower or faster meets all
// alike. After each turn the report is saved, so that what ran is there whatever
// ends the program.
func (p *parsed) run(ctx context.Context, r *report.Report, progress *progress, s streams) *report.Report {
	if p.broker == memoryBroker && p.target == "" {
		r.Notes = append(r.Notes, "CPU is of one process with dispatchers, broker, fake and load generator in it")
	}
	if p.common.Drain == 0 {
		r.Notes = append(r.Notes, "where messages were left on the queues, operations and CPU have what these have cost so far in them")
	}
	r.Notes = append(append(r.Notes, p.ranOn...), p.leftOut...)
	ended := make([][]turn, len(p.list)) // of each strategy
	for n := range p.runs {
		x := p.round(n)
		for k := range p.list {
			i := k
			if n%2 == 1 {
				i = len(p.list) - 1 - k
			}
			info := p.list[i]
			if n == 0 && info.Caveat != "" {
				r.Notes = append(r.Notes, info.Caveat)
			}
			ended[i] = append(ended[i], turn{x.seed, p.strategy(ctx, info, x, progress, s)})
			if p.version != "" {
				r.Versions.Broker = p.version
			}
			p.enter(r, ended)
			if ctx.Err() != nil {
				if r.Unfinished != "" {
					r.Unfinished = "stopped after " + strings.TrimSuffix(r.Unfinished, " have ended so far")
				}
				return r
			}
			if r.Unfinished != "" {
				if err := p.save(r); err != nil {
					fmt.Fprintln(progress.rows, "not saved:", service.OneLine(err)) // it is tried again in the end
				}
			}
		}
	}
	return r
}

// turn is a run of each part of the scenario with one strategy.
type turn struct {
	seed uint64
	runs []report.Run
}

// fold makes one run of each part of a strategy's turns; none before its first.
func (p *parsed) fold(turns []turn) (runs []report.Run) {
	if len(turns) == 0 {
		return nil
	}
	for part := range turns[0].runs {
		var list []report.Turn
		for _, x := range turns {
			if part < len(x.runs) { // else a part before it failed, or the user stopped there
				list = append(list, report.Turn{Run: x.runs[part], Seed: x.seed})
			}
		}
		runs = append(runs, report.Fold(list, p.runs))
	}
	return runs
}

// round is the load of all strategies in a round.
type round struct {
	seed uint64
	set  scenario.Set
	err  error // why there is no set; then set is the first round's
}

// round returns the n-th, from 0: that with the n-th next seed.
func (p *parsed) round(n int) round {
	if n == 0 {
		return round{p.common.Seed, p.set, nil}
	}
	first := p.common.Seed
	defer func() { p.common.Seed = first }()
	p.common.Seed += uint64(n) //nolint:gosec // rounds, from 0
	set, err := p.build()
	if err != nil {
		set = p.set
	}
	return round{p.common.Seed, set, err}
}

// enter writes what the turns came to so far into the report.
func (p *parsed) enter(r *report.Report, turns [][]turn) {
	r.Runs, r.Expectations, r.Unfinished = nil, nil, ""
	ended, all := 0, 0
	for i, info := range p.list {
		runs := p.fold(turns[i])
		r.Runs = append(r.Runs, runs...)
		if info.Name == scenario.Own && len(runs) == len(p.set.Parts) && !slices.ContainsFunc(runs, failed) {
			r.Expectations = append(r.Expectations, p.set.Expect(runs)...)
		}
		for _, x := range turns[i] {
			ended += len(x.runs)
		}
		all += p.runs * len(p.parts(info))
	}
	if ended < all {
		r.Unfinished = fmt.Sprintf("%d of %d runs have ended so far", ended, all)
	}
}

func failed(run report.Run) bool { return run.Status == report.Failed }

// parts are the runs of a strategy: what others are measured against runs with
// this project's alone.
func (p *parsed) parts(info strategy.Info) []scenario.Part { return partsOf(p.set, info) }

func partsOf(set scenario.Set, info strategy.Info) (list []scenario.Part) {
	for _, part := range set.Parts {
		if !part.Baseline || info.Name == scenario.Own {
			list = append(list, part)
		}
	}
	return list
}

// strategy runs each part of a round with one strategy, until one fails or ctx
// ends.
func (p *parsed) strategy(ctx context.Context, info strategy.Info, x round, progress *progress, s streams) (runs []report.Run) {
	log := slog.New(slog.DiscardHandler)
	if p.verbose {
		log = slog.New(slog.NewTextHandler(progress.line.Above(s.err), nil))
	}
	for _, part := range partsOf(x.set, info) {
		which := cmp.Or(part.Strategy, info.Name)
		name := strings.TrimSuffix(which+", "+part.Label, ", ")
		progress.begin(name, part.Plan)
		var run report.Run
		err := x.err
		if err == nil {
			run, err = trial.Run(ctx, trial.Config{
				Plan: part.Plan, Open: p.open, Strategy: which, Via: p.common.Via, Secret: p.secret, Seed: x.seed,
				RedisURL: p.redis, Topology: p.topology(), Rest: p.resting(), Log: log, Progress: progress.show,
				Running: p.target != "", Pages: p.ids,
			})
		}
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

// resting is how long the dispatchers of each run run before its load.
func (p *parsed) resting() time.Duration {
	if p.broker == memoryBroker || p.target != "" {
		return 0
	}
	return p.rest
}

// open makes the system that the flags ask for.
func (p *parsed) open(ctx context.Context, cfg fleet.Config) (fleet.Fleet, error) {
	if p.target != "" {
		return &fleet.Remote{Target: p.target, Ledger: p.ledger}, nil
	}
	if other, ok := p.peer(cfg.Options.Strategy); ok {
		return p.openPeer(ctx, cfg, other)
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
	p.preparePeers(ctx)
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
	hidden := []string{"json", "out", "quiet", "verbose", "secret", "broker", "redis", "target", "ledger", "pages-file", "prefix", "strategies", "peers", "postgres"}
	if p.resting() == 0 {
		hidden = append(hidden, "rest")
	}
	var list []report.Parameter
	p.flags.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(hidden, f.Name) {
			list = append(list, report.Parameter{Name: f.Name, Value: f.Value.String()})
		}
	})
	return list
}
