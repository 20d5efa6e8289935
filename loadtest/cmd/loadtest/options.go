package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"chatclub/loadtest/cases"
	"chatclub/loadtest/strategy"
)

// options are the flags of run and compare.
type options struct {
	setting    cases.Setting
	seed       uint64
	strategies string
	peers      string
	broker     string
	partitions int
	out        string
	runs       int
	target     string
	ledger     string
	secret     string
	pages      string
}

const (
	memoryBroker = "memory" // -broker's word for the queue in this process
	everything   = "all"    // -strategies' and -peers' word for all of them
)

// flags returns them, with the default of -strategies.
func (o *options) flags(command, strategies string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.DurationVar(&o.setting.Length, "duration", 0, "how long the load lasts; 0s: as the case says")
	fs.IntVar(&o.setting.Replicas, "replicas", 0, "dispatchers at the start; 0: as the case says, or 4")
	fs.Float64Var(&o.setting.Limit, "limit", 0, "messages per second and page that the platform takes; 0: as the case says, or 300")
	fs.StringVar(&o.setting.Latency, "latency", "", "the platform's, such as none or lognormal:40ms,150ms; empty: Messenger's own, or as the case says")
	fs.IntVar(&o.setting.Room, "room", 0, "members of a room, 2 to 100; 0: as the case says, or single copies")
	fs.Uint64Var(&o.seed, "seed", 1, "of the load")
	fs.StringVar(&o.strategies, "strategies", strategies, "which to run, separated by commas; all: every one")
	fs.StringVar(&o.peers, "peers", "", "systems of somebody else to run too, separated by commas: names of folders in peers, or paths of such folders; all: every one in peers")
	fs.StringVar(&o.broker, "broker", memoryBroker, "memory, or the address of a RabbitMQ, amqp://…, on which queues loadtest-… are made and deleted")
	fs.IntVar(&o.partitions, "partitions", cases.Partitions, "queues that share the messages to the dispatchers: 64 or a half, a quarter … of it")
	fs.StringVar(&o.out, "out", "", "folder to write report.html and report.json into")
	fs.IntVar(&o.runs, "runs", 1, "how often each strategy runs, in turn with the others and each time with the next seed; figures are medians")
	fs.StringVar(&o.target, "target", "", "webhook address of a running deployment to test in place of an own system; needs -ledger and -pages-file")
	fs.StringVar(&o.ledger, "ledger", "", "address of the fakeapi that the deployment sends to")
	fs.StringVar(&o.secret, "secret", "loadtest", "the deployment's APP_SECRET, which signs the events")
	fs.StringVar(&o.pages, "pages-file", "", "the deployment's PAGES_FILE: its pages, on which nobody has joined yet, are used in order")
	return fs
}

// checks collects what is wrong with flags.
type checks []error

func (c *checks) want(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

func isAddress(address string, schemes ...string) bool {
	u, err := url.Parse(address)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Host != ""
}

// validate names every flag that is wrong.
func (o *options) validate(fs *flag.FlagSet) error {
	var c checks
	c.want(o.broker == memoryBroker || isAddress(o.broker, "amqp", "amqps"), "-broker: neither memory nor an address such as amqp://guest:guest@127.0.0.1:5672/")
	c.want(o.runs >= 1, "-runs: %d must be 1 at least", o.runs)
	c.want(o.partitions >= 1 && cases.Partitions%o.partitions == 0, "-partitions: %d must be 64 or a half, a quarter … of it", o.partitions)
	c.want((o.target == "") == (o.ledger == ""), "-target: it needs -ledger, and -ledger needs it")
	c.want((o.target == "") == (o.pages == ""), "-target: it needs -pages-file, and -pages-file needs it")
	c.want(o.target == "" || isAddress(o.target, "http", "https"), "-target: not an address such as http://127.0.0.1:8080/webhook")
	c.want(o.ledger == "" || isAddress(o.ledger, "http", "https"), "-ledger: not an address such as http://127.0.0.1:8090")
	c.want(o.target == "" || o.runs == 1, "-runs: with -target one run, because in the next the rooms are not empty any more")
	for _, name := range []string{"broker", "partitions", "latency", "limit", "peers"} {
		f := fs.Lookup(name)
		c.want(o.target == "" || f.Value.String() == f.DefValue, "-%s: with -target the system is taken as it is", name)
	}
	return errors.Join(c...)
}

// What a case has on a running deployment where it and the flags say nothing.
const (
	deployedDrain = time.Minute // its queues cannot be looked at: what has not arrived then is lost
	deployedRoom  = 100         // core's ROOM_CAPACITY
)

// pageIDs are the deployment's pages, in order of their ids.
func (o *options) pageIDs() ([]string, error) {
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

// list are the strategies to run, as they were asked for.
func (o *options) list() (list []strategy.Info, err error) {
	if o.strategies == everything {
		return strategy.All(), nil
	}
	for name := range strings.SplitSeq(o.strategies, ",") {
		info, ok := strategy.Find(strings.TrimSpace(name))
		if !ok {
			return nil, fmt.Errorf("-strategies: %.40q is unknown; see loadtest list", name)
		}
		list = append(list, info)
	}
	return list, nil
}

// commandLine returns the command that runs it again. Values that may hold a password
// are left to the reader.
func commandLine(fs *flag.FlagSet, names ...string) string {
	words := append([]string{"go run ./cmd/loadtest", fs.Name()}, names...)
	fs.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		if f.Name == "secret" || strings.Contains(value, "://") {
			value = "…"
		}
		words = append(words, "-"+f.Name+"="+value)
	})
	return strings.Join(words, " ")
}
