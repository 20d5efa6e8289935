package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"chatclub/internal/queue/rabbit"
	"chatclub/internal/service"
	"chatclub/loadtest/articles"
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
	list      []strategy.Info
	others    []peer.Peer         // of list, those of somebody else
	deployed  *trial.Deployed     // nil: the systems are our own
	servers   fleet.Servers       // of strategies and peers
	addresses map[string][]string // of each peer, their addresses as variables
	notes     []string            // on strategies and peers
	progress  io.Writer
	at, all   int // runs that have begun, and all
}

// play plays a case with chatclub's dispatcher, or with every strategy, and returns the
// exit code of the verdict.
func play(ctx context.Context, command string, args []string, s streams) (code int, err error) {
	x := session{progress: s.err, addresses: make(map[string][]string)}
	defer func() { err = errors.Join(err, x.servers.Close()) }()
	strategies := report.Own
	if command == "compare" {
		strategies = everything
	}
	fs := x.flags(command, strategies)
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	if err := parse(fs, args, command+" CASE [flags]", s.out); err != nil {
		return 0, err
	}
	if err := x.validate(fs); err != nil {
		return 0, usageError{err}
	}
	c, err := x.find(name)
	if err != nil {
		return 0, usageError{err}
	}
	own := x.target != ""
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
	for _, info := range x.list {
		x.all += x.runs * len(partsOf(c, info.Name))
	}
	fmt.Fprintf(x.progress, "%d runs, about %s\n", x.all, clock(time.Duration(x.runs)*c.Takes(len(x.list))))
	r := x.play(ctx, c, commandLine(fs, name))
	return exitCode(r), write(s.out, r, x.out)
}

// write prints the verdict and the table, writes the files that were asked for, and says
// where they are.
func write(w io.Writer, r *report.Report, out string) error {
	err := report.WriteTable(w, r)
	if out == "" {
		fmt.Fprintln(w, "report: none; -out DIR writes DIR/report.html")
		return err
	}
	fmt.Fprintln(w, "report:", out)
	return errors.Join(err, report.Save(out, r))
}

// clock shows minutes and seconds, as in 2:10.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// find returns the case of a name, with its settings.
func (x *session) find(name string) (c cases.Case, err error) {
	c, ok := cases.Find(name)
	if !ok {
		var known []string
		for _, c := range cases.All() {
			known = append(known, c.Name)
		}
		return c, fmt.Errorf("case %.40q is none of %s", name, strings.Join(known, ", "))
	}
	if x.target != "" {
		ids, err := x.pageIDs()
		if err != nil {
			return c, err
		}
		x.deployed = &trial.Deployed{Webhook: x.target, Platform: fleet.Platform{URL: x.ledger}, Pages: ids}
		c.Webhook, c.Drain = true, max(c.Drain, deployedDrain)
		if x.setting.Room == 0 {
			x.setting.Room = deployedRoom
		}
	}
	c, err = c.With(x.setting)
	for i := range c.Parts {
		if c.Parts[i].Deployed = x.target != ""; x.target != "" {
			err = errors.Join(err, c.Parts[i].Deployable())
		}
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// choose finds the strategies and peers, and starts the servers that they need. Those
// that cannot run here are left out, with a note of the reason.
func (x *session) choose(ctx context.Context) error {
	all, err := x.options.list()
	if err != nil {
		return err
	}
	leaveOut := func(name string, err error) {
		x.notes = append(x.notes, fmt.Sprintf("%s is left out: %s", name, service.OneLine(err)))
	}
	for _, info := range all {
		if info.NeedsRedis {
			if _, err := x.servers.URL(ctx, peer.Redis); err != nil {
				leaveOut(info.Name, err)
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
		err := p.Prepare(ctx)
		for _, kind := range p.Needs {
			url, err2 := x.servers.URL(ctx, kind)
			x.addresses[p.Name], err = append(x.addresses[p.Name], kind.Variable()+"="+url), errors.Join(err, err2)
		}
		if err != nil {
			leaveOut(p.Name, err)
			continue
		}
		x.notes = append(x.notes, fmt.Sprintf("%s is %s", p.Name, p.Source))
		x.list = append(x.list, strategy.Info{Name: p.Name, Source: p.Source})
	}
	return nil
}

// play plays every strategy and part of a case, as often as it is to. The strategies
// take turns, there and back, so that a machine that grows slower or faster meets all
// alike.
func (x *session) play(ctx context.Context, c cases.Case, command string) *report.Report {
	r := report.New(c.Name, c.Title, x.seed, x.parameters(ctx, c)...)
	r.Source, r.Command, r.Notes = c.Source, command, x.notes
	ended := make([][][]report.Run, len(x.list)) // of each strategy, turn and part
	for n := range x.runs {
		for k := range x.list {
			i := k
			if n%2 == 1 {
				i = len(x.list) - 1 - k
			}
			if ctx.Err() == nil {
				ended[i] = append(ended[i], x.turn(ctx, c, x.list[i], x.seed+uint64(n)))
			}
		}
	}
	x.enter(r, c, ended)
	return r
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

// enter writes what the turns came to into the report.
func (x *session) enter(r *report.Report, c cases.Case, ended [][][]report.Run) {
	ran := 0
	for i, info := range x.list {
		var runs []report.Run
		parts := partsOf(c, info.Name)
		for k := range parts {
			var list []report.Run
			for _, turn := range ended[i] {
				if k < len(turn) { // else a part before it failed, or the user stopped there
					list = append(list, turn[k])
				}
			}
			if ran += len(list); list != nil {
				runs = append(runs, report.Fold(list, x.runs))
			}
		}
		r.Runs = append(r.Runs, runs...)
		failed := func(run report.Run) bool { return run.Status == report.Failed }
		if info.Name == report.Own && len(runs) == len(parts) && !slices.ContainsFunc(runs, failed) {
			r.Expectations = append(r.Expectations, c.Expect(runs)...)
		}
	}
	if ran < x.all {
		r.Unfinished = fmt.Sprintf("stopped after %d of %d runs", ran, x.all)
	}
}

// turn plays each part with one strategy, until one fails or ctx ends.
func (x *session) turn(ctx context.Context, c cases.Case, info strategy.Info, seed uint64) (runs []report.Run) {
	for _, p := range partsOf(c, info.Name) {
		name := strings.TrimSuffix(info.Name+", "+p.Label, ", ")
		x.at++
		fmt.Fprintf(x.progress, "%d of %d  %s, %s\n", x.at, x.all, name, clock(p.Length))
		cfg := trial.Config{
			Part: p, Webhook: c.Webhook, Open: x.open, Strategy: info.Name, Secret: x.secret, Seed: seed,
			Partitions: x.partitions, Log: slog.New(slog.DiscardHandler), Deployed: x.deployed,
		}
		var err error
		if info.NeedsRedis {
			cfg.RedisURL, err = x.servers.URL(ctx, peer.Redis)
		}
		var run report.Run
		if err == nil {
			run, err = trial.Run(ctx, cfg)
		}
		run.Baseline = p.Baseline
		if p.Label != "" {
			run.Label = name
		}
		if err != nil {
			run.Strategy, run.Replicas, run.Status, run.Reason = info.Name, p.Replicas, report.Failed, service.OneLine(err)
		}
		if run.Reason != "" {
			fmt.Fprintf(x.progress, "        %s: %s\n", run.Name(), run.Reason)
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
	if i := slices.IndexFunc(x.others, func(p peer.Peer) bool { return p.Name == cfg.Options.Strategy }); i >= 0 {
		return fleet.OpenPeer(ctx, cfg, x.others[i], x.addresses[cfg.Options.Strategy])
	}
	if x.broker != memoryBroker {
		cfg.AMQP = x.broker
	}
	return fleet.NewLocal(ctx, cfg)
}

// parameters are the case's settings.
func (x *session) parameters(ctx context.Context, c cases.Case) []report.Parameter {
	broker := x.broker
	switch {
	case x.target != "":
		broker = "the deployment's"
	case broker != memoryBroker:
		broker, _ = rabbit.Version(ctx, broker) // a broker that is not there fails the runs
	}
	list := []report.Parameter{
		{Name: "duration", Value: c.Length.String()},
		{Name: "replicas", Value: fmt.Sprint(c.Replicas)},
		{Name: "limit", Value: fmt.Sprint(c.Limit)},
		{Name: "latency", Value: c.Latency},
		{Name: "broker", Value: broker},
		{Name: "partitions", Value: fmt.Sprint(x.partitions)},
		{Name: "runs", Value: fmt.Sprint(x.runs)},
	}
	if c.Room > 0 {
		list = append(list, report.Parameter{Name: "room", Value: fmt.Sprint(c.Room)})
	}
	return list
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
		takes := "run: about " + clock(c.Takes(1)) + ", compare: about " + clock(c.Takes(len(strategy.All())))
		fmt.Fprintf(&b, "  %-18s %s\n  %-18s %s\n  %-18s from: %s\n", c.Name, c.Title, "", takes, "", c.Source)
	}
	b.WriteString("\nexperiments of the articles (loadtest articles NAME, or the begin of a name):\n")
	for _, e := range articles.All() {
		fmt.Fprintf(&b, "  %-18s %s\n", e.Name, e.Title)
	}
	b.WriteString("\nstrategies:\n")
	for _, x := range strategy.All() {
		needs := ""
		if x.NeedsRedis {
			needs = " (needs redis-server)"
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
