package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chatclub/internal/service"
	"chatclub/loadtest/cases"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/peer"
	"chatclub/loadtest/report"
	"chatclub/loadtest/strategy"
	"chatclub/loadtest/trial"
)

// session is one call of the program.
type session struct {
	options
	command  string // as to be typed again
	list     []strategy.Info
	others   []peer.Peer // of list, those of somebody else
	ids      []string    // of a deployment's pages
	notes    []string    // on strategies and peers
	versions report.Versions
	progress io.Writer
	at, all  int // runs that have begun, and all
	std      streams
}

// play plays cases with chatclub's dispatcher, or one with every strategy, and returns
// the exit code of the verdicts.
func play(ctx context.Context, command string, args []string, s streams) (code int, err error) {
	x := session{command: commandLine(command, args), std: s}
	strategies := report.Own
	if command == "compare" {
		strategies = everything
	}
	fs := x.flags(command, strategies)
	names, err := parse(fs, args, command+" CASE [flags]", s.out)
	if err != nil {
		return 0, err
	}
	if err := x.validate(fs); err != nil {
		return 0, usageError{err}
	}
	all, err := x.find(command, names)
	if err != nil {
		return 0, usageError{err}
	}
	own := x.target != "" || slices.ContainsFunc(all, func(c cases.Case) bool { return c.OwnOnly })
	if own && (x.peers != "" || x.strategies != strategies && x.strategies != report.Own) {
		return 0, usagef("-strategies, -peers: only %s can be played so", report.Own)
	} else if own {
		x.strategies = report.Own
	}
	if err := errors.Join(x.choose(ctx), writable(x.out)); err != nil {
		return 0, usageError{err}
	}
	for _, note := range x.notes {
		fmt.Fprintln(s.err, note)
	}
	x.progress = s.err
	if x.quiet {
		x.progress = io.Discard
	}
	x.expect(all)
	var faults []error
	for i, c := range all {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		r := x.play(ctx, c, len(all) > 1)
		faults = append(faults, x.write(r, len(all) > 1))
		code = worse(code, exitCode(r))
	}
	return code, errors.Join(faults...)
}

// expect says how many runs there will be, and about how long they take.
func (x *session) expect(all []cases.Case) {
	var takes time.Duration
	for _, c := range all {
		takes += time.Duration(x.runs) * c.Takes(len(x.list))
		for _, info := range x.list {
			x.all += x.runs * len(partsOf(c, info.Name))
		}
	}
	fmt.Fprintf(x.progress, "%d runs, about %s\n", x.all, clock(takes))
}

// clock shows minutes and seconds, as in 2:10.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// worse returns the exit code of the worse of two verdicts.
func worse(a, b int) int {
	if a == service.ExitFailure || b == service.ExitFailure {
		return service.ExitFailure
	}
	return max(a, b)
}

// find returns the cases of names, with their settings. All that is wrong is known
// before the first run.
func (x *session) find(command string, names []string) (all []cases.Case, err error) {
	if len(names) == 0 || command == "compare" && len(names) > 1 || x.json && len(names) > 1 {
		return nil, fmt.Errorf("%s: which case? One for compare and with -json; see loadtest list", command)
	}
	if x.ids, err = x.pageIDs(); err != nil {
		return nil, err
	}
	flags := x.setting
	for _, name := range names {
		c, ok := cases.Find(name)
		if !ok {
			var known []string
			for _, c := range cases.All() {
				known = append(known, c.Name)
			}
			return nil, fmt.Errorf("case %.40q is none of %s", name, strings.Join(known, ", "))
		}
		if x.target != "" {
			c.Webhook, c.Drain = true, max(c.Drain, deployedDrain)
			if flags.Room == 0 {
				flags.Room = deployedRoom
			}
		}
		if c, err = c.With(flags); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range c.Parts {
			if c.Parts[i].Deployed = x.target != ""; x.target != "" {
				err = errors.Join(err, c.Parts[i].Deployable())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// choose finds the strategies and peers. Those that cannot run here are left out, with a
// note of the reason.
func (x *session) choose(ctx context.Context) (err error) {
	x.versions = report.ThisBuild()
	x.versions.Broker = x.broker
	if x.broker != memoryBroker || x.target != "" {
		x.versions.Broker = "RabbitMQ"
	}
	all, err := x.options.list()
	if err != nil {
		return err
	}
	for _, info := range all {
		if info.NeedsRedis {
			if err := strategy.CheckRedis(ctx, x.redis); err != nil {
				x.notes = append(x.notes, fmt.Sprintf("%s is left out: it needs a Redis server (-redis ADDRESS): %v", info.Name, err))
				continue
			}
		}
		x.list = append(x.list, info)
	}
	if x.peers == "" {
		return nil
	}
	if x.others, err = peer.Find(x.peers); err != nil {
		return fmt.Errorf("-peers: %w", err)
	}
	for _, p := range x.others {
		if _, taken := strategy.Find(p.Name); taken {
			return fmt.Errorf("-peers: %s is the name of a strategy", p.Name)
		}
		on, err := p.Prepare(ctx)
		if err != nil {
			x.notes = append(x.notes, fmt.Sprintf("%s is left out: %s", p.Name, service.OneLine(err)))
			continue
		}
		x.notes = append(x.notes, fmt.Sprintf("%s is %s; it runs on %s", p.Name, p.Source, on))
		x.list = append(x.list, strategy.Info{Name: p.Name, Source: p.Source})
	}
	return nil
}

// play plays every strategy and part of a case, as often as it is to. The strategies
// take turns, there and back, so that a machine that grows slower or faster meets all
// alike. After each turn the report is saved, so that what ran is there whatever ends
// the program.
func (x *session) play(ctx context.Context, c cases.Case, many bool) *report.Report {
	r := &report.Report{
		Schema: report.Schema, Case: c.Name, Title: c.Title, Source: c.Source, Parameters: x.parameters(c), Command: x.command,
		Seed: x.seed, Started: time.Now().UTC().Truncate(time.Second), Versions: x.versions, Machine: report.ThisMachine(), Notes: slices.Clone(x.notes),
	}
	if x.broker == memoryBroker && x.target == "" {
		r.Notes = append(r.Notes, "CPU is of one process with dispatchers, broker, fake and load generator in it")
	}
	for _, info := range x.list {
		if info.Caveat != "" {
			r.Notes = append(r.Notes, info.Caveat)
		}
	}
	ended := make([][]turn, len(x.list)) // of each strategy
	for n := range x.runs {
		for k := range x.list {
			i := k
			if n%2 == 1 {
				i = len(x.list) - 1 - k
			}
			seed := x.seed + uint64(n)
			ended[i] = append(ended[i], turn{seed, x.turn(ctx, c, x.list[i], seed)})
			r.Versions.Broker = x.versions.Broker
			x.enter(r, c, ended)
			if ctx.Err() != nil {
				return r
			}
			if r.Unfinished != "" {
				if err := x.save(r, many); err != nil {
					fmt.Fprintln(x.progress, "not saved:", service.OneLine(err)) // it is tried again in the end
				}
			}
		}
	}
	return r
}

// turn is a run of each part of the case with one strategy.
type turn struct {
	seed uint64
	runs []report.Run
}

// partsOf are the runs of a strategy: a baseline is this project's alone.
func partsOf(c cases.Case, strategy string) (list []cases.Part) {
	for _, p := range c.Parts {
		if !p.Baseline || strategy == report.Own {
			list = append(list, p)
		}
	}
	return list
}

// enter writes what the turns came to so far into the report.
func (x *session) enter(r *report.Report, c cases.Case, ended [][]turn) {
	r.Runs, r.Expectations, r.Unfinished = nil, nil, ""
	ran, all := 0, 0
	for i, info := range x.list {
		var runs []report.Run
		parts := partsOf(c, info.Name)
		for k := range parts {
			var list []report.Turn
			for _, t := range ended[i] {
				if k < len(t.runs) { // else a part before it failed, or the user stopped there
					list = append(list, report.Turn{Run: t.runs[k], Seed: t.seed})
				}
			}
			if ran += len(list); list != nil {
				runs = append(runs, report.Fold(list, x.runs))
			}
		}
		all += x.runs * len(parts)
		r.Runs = append(r.Runs, runs...)
		failed := func(run report.Run) bool { return run.Status == report.Failed }
		if info.Name == report.Own && len(runs) == len(parts) && !slices.ContainsFunc(runs, failed) {
			r.Expectations = append(r.Expectations, c.Expect(runs)...)
		}
	}
	if ran < all {
		r.Unfinished = fmt.Sprintf("stopped after %d of %d runs", ran, all)
	}
}

// turn plays each part with one strategy, until one fails or ctx ends.
func (x *session) turn(ctx context.Context, c cases.Case, info strategy.Info, seed uint64) (runs []report.Run) {
	log := slog.New(slog.DiscardHandler)
	if x.verbose {
		log = slog.New(slog.NewTextHandler(x.std.err, nil))
	}
	for _, p := range partsOf(c, info.Name) {
		name := strings.TrimSuffix(info.Name+", "+p.Label, ", ")
		x.at++
		fmt.Fprintf(x.progress, "%d of %d  %s, %s\n", x.at, x.all, name, clock(p.Length))
		run, err := trial.Run(ctx, trial.Config{
			Part: p, Webhook: c.Webhook, Open: x.open, Strategy: info.Name, Secret: x.secret, Seed: seed, RedisURL: x.redis,
			Prefix: x.prefix, Partitions: x.partitions, Log: log, Running: x.target != "", Pages: x.ids,
		})
		run.Baseline = p.Baseline
		if p.Label != "" {
			run.Label = name
		}
		if err != nil {
			run.Strategy, run.Replicas, run.Status, run.Reason = info.Name, p.Replicas, report.Failed, service.OneLine(err)
		}
		if x.all > 1 { // one alone has its table at once
			fmt.Fprintf(x.progress, "        %s\n", run.Line())
		}
		runs = append(runs, run)
		if err != nil || ctx.Err() != nil {
			break
		}
	}
	return runs
}

// open makes the system that the flags ask for.
func (x *session) open(ctx context.Context, cfg fleet.Config) (fleet.Fleet, error) {
	i := slices.IndexFunc(x.others, func(p peer.Peer) bool { return p.Name == cfg.Options.Strategy })
	switch {
	case x.target != "":
		return fleet.Running(x.target, x.ledger), nil
	case i >= 0:
		return fleet.OpenPeer(ctx, cfg, x.others[i])
	case x.broker == memoryBroker:
		return fleet.OpenLocal(ctx, cfg)
	}
	f, version, err := fleet.OpenProcesses(ctx, cfg, x.broker)
	if version != "" {
		x.versions.Broker = version
	}
	return f, err
}

// parameters are the case's settings.
func (x *session) parameters(c cases.Case) []report.Parameter {
	list := []report.Parameter{
		{Name: "duration", Value: c.Length.String()},
		{Name: "replicas", Value: fmt.Sprint(c.Replicas)},
		{Name: "limit", Value: fmt.Sprint(c.Limit)},
		{Name: "latency", Value: c.Latency},
		{Name: "partitions", Value: fmt.Sprint(x.partitions)},
		{Name: "runs", Value: fmt.Sprint(x.runs)},
	}
	if c.Room > 0 {
		list = append(list, report.Parameter{Name: "room", Value: fmt.Sprint(c.Room)})
	}
	return list
}

// save writes the folder that was asked for: one for each case where there are many.
func (x *session) save(r *report.Report, many bool) error {
	switch {
	case x.out == "":
		return nil
	case many:
		return report.Save(filepath.Join(x.out, r.Case), r)
	}
	return report.Save(x.out, r)
}

// write prints the verdict and the table, writes the files that were asked for,
// and says where the report is.
func (x *session) write(r *report.Report, many bool) error {
	if x.json {
		fmt.Fprintf(x.std.err, "loadtest: %s: %s\n", r.Case, r.Verdict())
		return errors.Join(x.save(r, many), report.Write(x.std.out, r))
	}
	if err := errors.Join(report.WriteTable(x.std.out, r), x.save(r, many)); err != nil {
		return err
	}
	if x.out != "" {
		fmt.Fprintln(x.std.out, "report:", x.out)
	} else {
		fmt.Fprintln(x.std.out, "report: none; -out DIR writes DIR/report.html")
	}
	return nil
}

// list prints the cases with how long each takes, the strategies and the peers.
func list(w io.Writer) error {
	var b strings.Builder
	b.WriteString("start with: loadtest run saturate -out out/saturate\n\ncases:\n")
	for _, c := range cases.All() {
		c, err := c.With(cases.Setting{})
		if err != nil {
			return fmt.Errorf("list %s: %w", c.Name, err)
		}
		takes := "run: about " + clock(c.Takes(1))
		if !c.OwnOnly {
			takes += ", compare: about " + clock(c.Takes(len(strategy.All())))
		}
		fmt.Fprintf(&b, "  %-18s %s\n  %-18s %s\n  %-18s from: %s\n", c.Name, c.Title, "", takes, "", c.Source)
	}
	b.WriteString("\nstrategies:\n")
	for _, x := range strategy.All() {
		needs := ""
		if x.NeedsRedis {
			needs = " (needs Redis)"
		}
		fmt.Fprintf(&b, "  %-18s %s%s\n", x.Name, x.Source, needs)
	}
	if others, err := peer.Find(everything); err == nil { // they are there in the project's folder
		b.WriteString("\npeers (-peers):\n")
		for _, x := range others {
			fmt.Fprintf(&b, "  %-18s %s\n", x.Name, x.Source)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
