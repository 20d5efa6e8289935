package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"chatclub/internal/queue"
	"chatclub/loadtest/peer"
	"chatclub/loadtest/scenario"
	"chatclub/loadtest/strategy"
	"chatclub/loadtest/trial"
)

// options are the flags that are not the scenario's.
type options struct {
	strategies string
	peers      string
	broker     string
	prefix     string
	partitions int
	rest       time.Duration
	redis      string
	postgres   string
	json       string
	out        string
	runs       int
	quiet      bool
	verbose    bool
	target     string
	ledger     string
	secret     string
	pages      string
}

// mostRuns bounds -runs: beyond it the range of a day's runs says less than
// their number.
const mostRuns = 100

// mostRest bounds -rest: longer than anything needs in order to settle.
const mostRest = time.Minute

// memoryBroker is -broker's word for the queue in this process.
const memoryBroker = "memory"

// everyStrategy is -strategies' word for all of them.
const everyStrategy = "all"

func (o *options) add(fs *flag.FlagSet, strategies string) {
	fs.StringVar(&o.strategies, "strategies", strategies, "which to run, separated by commas; all: every one")
	fs.StringVar(&o.peers, "peers", "", "systems of somebody else to run too, separated by commas: names of folders in peers, or paths of such folders; all: every one in peers")
	fs.StringVar(&o.broker, "broker", memoryBroker, "memory (everything in this process) or an address amqp://… (dispatchers and fake as processes)")
	fs.StringVar(&o.prefix, "prefix", "chatclub-loadtest", "first part of the queues' names on RabbitMQ; they are emptied and deleted")
	fs.IntVar(&o.partitions, "partitions", 64, "queues that share the messages to the dispatchers")
	fs.DurationVar(&o.rest, "rest", 8*time.Second, "how long dispatchers that are processes run before the load, 0s to 1m; they share the partitions in this time")
	fs.StringVar(&o.redis, "redis", "redis://127.0.0.1:6379/0", "the server for the strategies that need one, and for peers where none is installed")
	fs.StringVar(&o.postgres, "postgres", "", "an address postgres://… for the peers that need a server, where none is installed")
	fs.StringVar(&o.json, "json", "", "where to write the figures for programs; - for standard output, and nothing else on it")
	fs.StringVar(&o.out, "out", "", "folder to write report.json, report.md, report.html and pictures into")
	fs.IntVar(&o.runs, "runs", 1, "how often each strategy runs, in turn with the others and each time with the next seed; figures are medians")
	fs.BoolVar(&o.quiet, "quiet", false, "no progress on standard error")
	fs.BoolVar(&o.verbose, "verbose", false, "what the dispatchers log, on standard error")
	fs.StringVar(&o.target, "target", "", "webhook address of a running deployment to test in place of an own system; needs -ledger")
	fs.StringVar(&o.ledger, "ledger", "", "address of the fakeapi that the deployment sends to")
	fs.StringVar(&o.secret, "secret", "loadtest", "the deployment's APP_SECRET, which signs the events")
	fs.StringVar(&o.pages, "pages-file", "", "the deployment's PAGES_FILE: its pages, on which nobody has joined yet, are used in order")
}

// validate names every faulty flag.
func (o *options) validate() error {
	var faults []error
	if o.broker != memoryBroker {
		if u, err := url.Parse(o.broker); err != nil || u.Scheme != "amqp" && u.Scheme != "amqps" || u.Host == "" {
			faults = append(faults, errors.New("-broker: neither memory nor an address such as amqp://guest:guest@127.0.0.1:5672/"))
		}
	}
	if o.runs < 1 || o.runs > mostRuns {
		faults = append(faults, fmt.Errorf("-runs: %d must be 1 to %d", o.runs, mostRuns))
	}
	if o.rest < 0 || o.rest > mostRest {
		faults = append(faults, fmt.Errorf("-rest: %v must be 0s to %v", o.rest, mostRest))
	}
	if err := o.topology().Validate(); err != nil {
		faults = append(faults, fmt.Errorf("-prefix, -partitions: %w", err))
	}
	if o.runs > 1 && o.target != "" {
		faults = append(faults, errors.New("-runs: with -target one run, because in the next the rooms are not empty any more"))
	}
	if (o.target == "") != (o.ledger == "") {
		faults = append(faults, errors.New("-target: it needs -ledger, and -ledger needs it"))
	}
	if o.target != "" && o.pages == "" {
		faults = append(faults, errors.New("-target: needs -pages-file"))
	}
	for name, address := range map[string]string{"target": o.target, "ledger": o.ledger} {
		if u, err := url.Parse(address); address != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			faults = append(faults, fmt.Errorf("-%s: not an address such as http://127.0.0.1:8080/webhook", name))
		}
	}
	if _, err := o.list(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (o *options) topology() queue.Topology {
	return queue.Topology{Prefix: o.prefix, Partitions: o.partitions}
}

// Defaults where a running deployment is tested.
const (
	deployedDrain = time.Minute // its queues cannot be looked at: what has not arrived then is lost
	deployedRoom  = 100         // core's ROOM_CAPACITY
)

// deployment sets what a running deployment needs: its only entry is its
// webhook.
func (p *parsed) deployment() {
	p.common.Via = trial.ViaWebhook
	if p.common.Drain == 0 {
		p.common.Drain = deployedDrain
	}
	if p.common.Room == 0 {
		p.common.Room = deployedRoom
	}
}

// pageIDs are the deployment's pages, in order of their ids; nil without one.
func (o *options) pageIDs() ([]string, error) {
	if o.target == "" {
		return nil, nil
	}
	b, err := os.ReadFile(o.pages)
	if err != nil {
		return nil, fmt.Errorf("-pages-file: %w", err)
	}
	var tokens map[string]string
	if err := json.Unmarshal(b, &tokens); err != nil {
		return nil, errors.New("-pages-file: not an object of page ids and tokens")
	}
	return slices.Sorted(maps.Keys(tokens)), nil
}

// list are the strategies to run, chatclub's own first.
func (o *options) list() ([]strategy.Info, error) {
	if o.strategies == everyStrategy {
		return strategy.All(), nil
	}
	var list []strategy.Info
	for name := range strings.SplitSeq(o.strategies, ",") {
		info, ok := strategy.Find(strings.TrimSpace(name))
		if !ok {
			return nil, fmt.Errorf("-strategies: %.40q is unknown; see loadtest list", name)
		}
		list = append(list, info)
	}
	return list, nil
}

// parsed is a scenario with its parameters.
type parsed struct {
	options
	scenario scenario.Scenario
	common   *scenario.Common
	set      scenario.Set                 // with the first seed
	build    func() (scenario.Set, error) // another with the seed that common has
	flags    *flag.FlagSet
	list     []strategy.Info
	others   []peer.Peer // of list, those of somebody else
	ids      []string    // of a deployment's pages
	version  string      // the broker's, once it is known

	redisVersion string   // where a strategy needs it
	leftOut      []string // notes on strategies and peers that cannot run
	ranOn        []string // notes on peers: what they are, and on which servers they run
}

// parse reads the flags of one scenario.
func parse(s scenario.Scenario, args []string, strategies string, help io.Writer) (*parsed, error) {
	p := &parsed{scenario: s, flags: flag.NewFlagSet(s.Name, flag.ContinueOnError)}
	p.flags.SetOutput(io.Discard)
	p.add(p.flags, strategies)
	p.common, p.build = s.Flags(p.flags)
	switch err := p.flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(help, "%s: %s\nfrom: %s\n\n", s.Name, s.Title, s.Source)
		p.flags.SetOutput(help)
		p.flags.PrintDefaults()
		return nil, flag.ErrHelp
	case err != nil:
		return nil, usageError{fmt.Errorf("%s: %w", s.Name, p.explain(err))}
	case p.flags.NArg() > 0:
		return nil, usagef("%s: unexpected argument %.40q", s.Name, p.flags.Arg(0))
	}
	if err := p.deployed(); err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", s.Name, err)}
	}
	if p.target != "" {
		p.deployment()
	}
	p.common.Partitions = max(1, p.partitions) // validate refuses what is below
	set, err := p.build()
	pages, badPages := p.pageIDs()
	p.ids = pages
	if err = errors.Join(err, p.validate(), badPages); err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", s.Name, err)}
	}
	p.set = set
	if p.list, err = p.options.list(); err != nil {
		return nil, usageError{err}
	}
	if err := p.addPeers(); err != nil {
		return nil, usageError{fmt.Errorf("-peers: %w", err)}
	}
	if s.Paired && p.runs > 1 {
		return nil, usagef("%s: -runs: the scenario repeats its runs itself; see its own flags", s.Name)
	}
	if s.OwnOnly || p.target != "" {
		if p.peers != "" {
			return nil, usagef("%s: -peers: only %s runs, because %s", s.Name, scenario.Own, why(s))
		}
		if p.strategies != strategies && p.strategies != scenario.Own {
			return nil, usagef("%s: -strategies: only %s runs, because %s", s.Name, scenario.Own, why(s))
		}
		own, _ := strategy.Find(scenario.Own)
		p.list = []strategy.Info{own}
	}
	return p, nil
}

// deployed names the flags that were changed and would change nothing: with
// -target those of an own system, and without it the deployment's.
func (p *parsed) deployed() error {
	names, why := []string{"broker", "prefix", "partitions", "rest", "redis", "postgres", "latency"}, "with -target the system is taken as it is"
	if p.target == "" {
		names, why = []string{"pages-file"}, "it needs -target"
	}
	var faults []error
	for _, name := range names {
		if f := p.flags.Lookup(name); f != nil && f.Value.String() != f.DefValue {
			faults = append(faults, fmt.Errorf("-%s: %s", name, why))
		}
	}
	return errors.Join(faults...)
}

// why is the reason for which a strategy cannot be chosen.
func why(s scenario.Scenario) string {
	if s.OwnOnly {
		return "the scenario is about its dispatcher and not about ways of sharing a limit"
	}
	return "-target tests what runs there"
}

// explain says more of a flag's error: what a duration without a unit should be,
// and of a flag that others have and the scenario does not, that setting it would
// change nothing.
func (p *parsed) explain(err error) error {
	var value, name string
	if n, _ := fmt.Sscanf(err.Error(), "invalid value %q for flag -%s", &value, &name); n == 2 { // the error has no type
		f := p.flags.Lookup(strings.TrimSuffix(name, ":"))
		if _, wrong := strconv.ParseFloat(value, 64); f != nil && wrong == nil && isDuration(f) {
			return fmt.Errorf("-%s: %s has no unit; want %ss?", f.Name, value, value)
		}
	}
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return err
	}
	common := flag.NewFlagSet("", flag.ContinueOnError)
	scenario.CommonFlags(common)
	if common.Lookup(name) != nil {
		return fmt.Errorf("-%s: this scenario does not use it", name)
	}
	return fmt.Errorf("-%s: there is no such flag; loadtest run %s -h lists them", name, p.scenario.Name)
}

func isDuration(f *flag.Flag) bool {
	g, ok := f.Value.(flag.Getter)
	if !ok {
		return false
	}
	_, ok = g.Get().(time.Duration)
	return ok
}
