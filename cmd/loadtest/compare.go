package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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

// runScenarios runs one scenario after another with chatclub's dispatcher.
func runScenarios(ctx context.Context, args []string, s streams) error {
	names, flags := splitScenarios(args)
	if len(names) == 0 && asksHelp(flags) {
		commonHelp(s.out, scenario.Own)
		return nil
	}
	if len(names) == 0 {
		return usagef("run: which scenario? See loadtest list")
	}
	var all []*parsed
	for _, name := range names { // all faults before the first run
		x, err := findScenario(name)
		if err != nil {
			return err
		}
		p, err := parse(x, flags, scenario.Own, s.out)
		if err != nil {
			return err
		}
		if len(names) > 1 && p.out != "" {
			p.out = filepath.Join(p.out, name)
		}
		all = append(all, p)
	}
	if len(names) > 1 && all[0].json != "" {
		return usagef("run: -json is for one scenario; -out has a folder for each")
	}
	for _, p := range all {
		if err := p.prepare(ctx); err != nil {
			return err
		}
	}
	var faults []error
	for _, p := range all {
		if ctx.Err() != nil {
			break
		}
		faults = append(faults, p.run(ctx, args, s, "run"))
	}
	return errors.Join(faults...)
}

// compareScenario runs a scenario with every strategy.
func compareScenario(ctx context.Context, args []string, s streams) error {
	names, flags := splitScenarios(args)
	if len(names) == 0 && asksHelp(flags) {
		commonHelp(s.out, everyStrategy)
		return nil
	}
	if len(names) != 1 {
		return usagef("compare: one scenario, please; see loadtest list")
	}
	x, err := findScenario(names[0])
	if err != nil {
		return err
	}
	p, err := parse(x, flags, everyStrategy, s.out)
	if err != nil {
		return err
	}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	return p.run(ctx, args, s, "compare")
}

// run runs every strategy and part, and writes the report. Strategies that
// cannot be run are told and left out.
func (p *parsed) run(ctx context.Context, args []string, s streams, command string) error {
	r := p.head(command, args)
	if p.broker == memoryBroker && p.target == "" {
		r.Notes = append(r.Notes, "CPU is of one process with dispatchers, broker, fake and load generator in it")
	}
	if p.common.Drain == 0 {
		r.Notes = append(r.Notes, "where messages were left on the queues, operations and CPU have what these have cost so far in them")
	}
	var failed []error
	for i, info := range p.list {
		if info.NeedsRedis {
			v, err := strategy.RedisVersion(ctx, p.redis)
			if err != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("%s is left out: it needs a Redis server (-redis ADDRESS): %v", info.Name, err))
				fmt.Fprintln(s.err, r.Notes[len(r.Notes)-1])
				continue
			}
			r.Versions.Redis = v
		}
		if info.Caveat != "" {
			r.Notes = append(r.Notes, info.Caveat)
		}
		runs, err := p.strategy(ctx, info, s)
		if p.version != "" {
			r.Versions.Broker = p.version
		}
		r.Runs = append(r.Runs, runs...)
		if info.Name == scenario.Own && len(runs) == len(p.set.Parts) {
			r.Expectations = append(r.Expectations, p.set.Expect(runs)...)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", info.Name, err))
		}
		if ctx.Err() != nil {
			r.Notes = append(r.Notes, "stopped before its end")
			break
		}
		if i < len(p.list)-1 { // whatever ends the program, what ran is there
			so := *r
			so.Notes = append(slices.Clone(r.Notes), "written while the next strategies were still to run")
			if err := p.save(&so); err != nil {
				return err
			}
		}
	}
	if err := p.write(r, s); err != nil {
		return err
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return verdict(r)
}

// verdict is an error when our own dispatcher lost something or an expectation
// was not met. What others lose is their figure.
func verdict(r *report.Report) error {
	var faults []error
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Strategy == scenario.Own && run.Lost != nil && *run.Lost > 0 {
			faults = append(faults, fmt.Errorf("%s lost %d messages", run.Name(), *run.Lost))
		}
	}
	for _, e := range r.Expectations {
		if e.Met != nil && !*e.Met {
			faults = append(faults, fmt.Errorf("%s: %s", e.Text, e.Got))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", errNotMet, errors.Join(faults...))
}

// strategy runs each part with one strategy. What ran is returned also when
// something failed.
func (p *parsed) strategy(ctx context.Context, info strategy.Info, s streams) ([]report.Run, error) {
	log := slog.New(slog.DiscardHandler)
	if p.verbose {
		log = slog.New(slog.NewTextHandler(s.err, nil))
	}
	var runs []report.Run
	for _, part := range p.set.Parts {
		if part.Baseline && info.Name != scenario.Own {
			continue
		}
		which := cmp.Or(part.Strategy, info.Name)
		name := strings.TrimSuffix(which+", "+part.Label, ", ")
		show := newProgress(s.err, name, p.quiet)
		run, err := trial.Run(ctx, trial.Config{
			Plan: part.Plan, Open: p.open, Strategy: which, Via: p.common.Via, Secret: p.secret, Seed: p.common.Seed,
			RedisURL: p.redis, Topology: p.topology(), Log: log, Progress: show.show,
			Running: p.target != "", Pages: p.ids,
		})
		show.end()
		run.Baseline = part.Baseline
		if part.Label != "" {
			run.Label = name
		}
		if err != nil {
			run.Strategy, run.Replicas, run.Status = which, part.Plan.Replicas, report.Failed
			run.Notes = append(run.Notes, service.OneLine(err))
			return append(runs, run), err
		}
		runs = append(runs, run)
		if ctx.Err() != nil {
			break
		}
	}
	return runs, nil //nolint:nilerr // being stopped is no failure
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

// write prints the table and writes the files that were asked for.
func (p *parsed) write(r *report.Report, s streams) error {
	if p.json != "-" {
		if err := report.WriteTable(s.out, r); err != nil {
			return err
		}
	}
	err := p.save(r)
	if p.json == "-" {
		err = errors.Join(err, report.WriteCompact(s.out, r))
	}
	return err
}

// save writes the files that were asked for.
func (p *parsed) save(r *report.Report) error {
	var faults []error
	if p.json != "" && p.json != "-" {
		faults = append(faults, toFile(p.json, func(w io.Writer) error { return report.WriteCompact(w, r) }))
	}
	if p.out != "" {
		faults = append(faults, report.Save(p.out, r))
	}
	return errors.Join(faults...)
}

// prepare finds out before the first run whether the files can be written that
// are written after the last.
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
	return nil
}

// writable reports whether a file can be made in a folder.
func writable(flag, dir string) error {
	f, err := os.CreateTemp(dir, ".loadtest-*")
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) //nolint:gosec // made above
}

// toFile writes a file whole or not at all.
func toFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".loadtest-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name) //nolint:gosec // the user's own file
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name())) //nolint:gosec // made above
	}
	return nil
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
