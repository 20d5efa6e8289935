// Package trial plays one part of a case with one way of sharing the limits, and
// writes down the judge's findings. A trial announces every message to the judge
// before it is published, counts latencies from the time that a message was due, stops
// the dispatchers at the end and looks at every queue: a message that was neither
// accepted nor is left, nor dead-lettered with a reason, is lost. Nothing of the
// verdict comes from the system under test.
package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
	"chatclub/internal/dispatch"
	"chatclub/internal/machine"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/networktest"
	"chatclub/loadtest/cases"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
	"chatclub/tools/stall"
)

// Config of a trial. Part, Strategy and Log must be set, and Open or Deployed.
type Config struct {
	Part     cases.Part // with all of its settings
	Webhook  bool       // signed events through the whole system; otherwise copies straight onto the queue
	Open     func(context.Context, fleet.Config) (fleet.Fleet, error)
	Strategy string
	Secret   string // signs the events
	Seed     uint64 // the same seed is the same demand
	RedisURL string // for the strategies that need it
	// Partitions share the messages to the dispatchers; they divide cases.Partitions,
	// so that pages of one partition there are so here.
	Partitions int
	Log        *slog.Logger
	Wrap       func(dispatch.Caller) dispatch.Caller // see fleet.Config

	Deployed *Deployed // in place of Open
}

// Deployed is a system that runs already and goes on afterwards: the platform is taken
// as it is, no dispatcher is started or stopped, and no queue is looked at.
type Deployed struct {
	Webhook  string         // its address
	Platform fleet.Platform // to which it sends
	Pages    []string       // ids of the pages to use in place of the part's
}

// trial is one that runs.
type trial struct {
	Config
	options  fleet.Options
	topology queue.Topology
	fleet    fleet.Fleet // nil: the system is deployed
	platform fleet.Platform
	judge    *judge.Judge
	dead     int    // messages with a reason
	users    *Users // nil: copies straight onto the queue
	tally    *load.Tally
	meter    *stall.Meter
	id       string        // of this trial
	earlier  ledger.Counts // before it
	before   ledger.Counts // when the load began
	began    time.Time     // the load
	limits   []limitChange
	started  usage
	ended    usage
	length   time.Duration // of the load that ran
	arrived  bool          // all of it, in the end
	drained  time.Duration // after the begin, when the last had arrived
	stopped  bool          // before its end
	notes    []string
}

// usage is the use of this process and of the broker so far.
type usage struct {
	operations int64
	cpu        time.Duration
	machine    *machine.Use // nil: not known
	at         time.Time
}

// othersSince is the share of the processors that other programs had; 0 where it is not
// known, and where the kernel counts other processors than this program's.
func (u usage) othersSince(before usage) float64 {
	if u.machine == nil || before.machine == nil {
		return 0
	}
	passed := (u.machine.All - before.machine.All).Seconds() / float64(runtime.NumCPU())
	if math.Abs(passed/u.at.Sub(before.at).Seconds()-1) > .05 {
		return 0
	}
	return u.machine.OthersSince(*before.machine)
}

// limitChange is the platform's limit of one page from a time of the run on.
type limitChange struct {
	at    time.Duration
	limit float64
}

// Run runs the trial. When ctx ends the load stops, and what ran is judged:
// the run's status is then Interrupted. The error is of the harness; a system
// that fails is a result.
func Run(ctx context.Context, cfg Config) (_ report.Run, err error) {
	t := &trial{
		Config: cfg, tally: new(load.Tally), id: strconv.FormatUint(rand.Uint64(), 36),
	}
	t.topology = queue.Topology{Prefix: "loadtest-" + t.id, Partitions: cfg.Partitions}
	if cfg.Deployed != nil {
		t.platform = cfg.Deployed.Platform
		if t.Part, err = cfg.Part.On(cfg.Deployed.Pages); err != nil {
			return report.Run{}, err
		}
	}
	defer func() {
		err = errors.Join(err, t.putBack(ctx))
		if t.fleet != nil {
			err = errors.Join(err, t.fleet.Close())
		}
	}()
	return t.run(ctx)
}

func (t *trial) run(ctx context.Context) (report.Run, error) {
	err := t.open(ctx)
	if err != nil && ctx.Err() != nil {
		return report.Run{ //nolint:nilerr // it is told
			Strategy: t.Strategy, Replicas: t.Part.Replicas, Status: report.Interrupted,
			Reason: fmt.Sprintf("stopped before the load began: %v", err), Notes: t.notes,
		}, nil
	} else if err != nil {
		return report.Run{}, err
	}
	if err := t.awaitBegin(ctx); err != nil {
		return report.Run{}, err
	}
	t.meter = stall.Start()
	err = t.load(ctx)
	t.meter.Stop()
	if err != nil {
		return report.Run{}, err
	}
	t.stopped = ctx.Err() != nil
	ctx = context.WithoutCancel(ctx) // the user who stops the run wants to know what ran
	if err := t.settle(ctx); err != nil {
		return report.Run{}, err
	}
	run, err := t.verdict(ctx)
	if t.stopped {
		run.Status, run.Reason = report.Interrupted, fmt.Sprintf("stopped after %v of %v", t.length.Round(time.Second), t.Part.Length)
	}
	return run, err
}

func (t *trial) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// ran returns the time since the load's begin, 0 before it.
func (t *trial) ran() time.Duration { return max(0, time.Since(t.began)) }

// hotAudio reports whether the hot pages are judged by the limit of media.
func (t *trial) hotAudio() bool {
	for _, s := range t.Part.Streams {
		if s.Group == cases.Hot && s.Audio {
			return true
		}
	}
	return false
}

// open starts the system, and lets the users join where there are any.
func (t *trial) open(ctx context.Context) (err error) {
	p := &t.Part
	t.options = fleet.Options{
		Strategy: t.Strategy, Replicas: p.Replicas, Limit: p.Limit, Media: p.Media, MessageTTL: p.MessageTTL,
		RedisURL: t.RedisURL, KeyPrefix: "loadtest:" + t.id,
	}
	if t.Deployed == nil {
		if t.fleet, err = t.Open(ctx, fleet.Config{Options: t.options, Topology: t.topology, Pages: p.Pages(""), Seed: t.Seed, Log: t.Log, Wrap: t.Wrap}); err != nil {
			t.fleet = nil // a nil pointer in an interface is not nil
			return err
		}
		t.platform = t.fleet.Platform()
	}
	if t.judge, err = judge.New(t.platform.URL, t.platform.Transport); err != nil {
		return err
	}
	if t.Deployed != nil {
		err = t.checkDeployed(ctx)
	} else {
		err = t.start(ctx)
	}
	t.limits = []limitChange{{0, p.Limit}}
	if t.hotAudio() {
		t.limits = []limitChange{{0, p.Media}}
	}
	if err != nil || !t.Webhook {
		return err
	}
	if p.Room < 2 {
		return errors.New("rooms must have at least 2 members")
	}
	var url string
	if t.Deployed != nil {
		url = t.Deployed.Webhook
	} else if url, err = t.fleet.Ingress(ctx, fleet.Ingress{Secret: t.Secret, Capacity: p.Room, Shared: t.Strategy != report.Own}); err != nil {
		return err
	}
	if t.users, err = NewUsers(url, t.Secret, t.id, t.judge, 30*time.Second); err != nil { // as patient as the load test is
		return err
	}
	t.users.copies = make(map[string][]string) // of what is left on inbound
	return t.users.Join(ctx, p.Streams, p.Room)
}

// start makes the platform and the dispatchers of a system of its own.
func (t *trial) start(ctx context.Context) (err error) {
	// No dispatcher knows where in a second the platform's windows begin. It is
	// the same for all strategies.
	phase := fakeapi.Duration(time.Duration(t.Seed*317%1000) * time.Millisecond)
	settings := map[string]any{
		"text":    map[string]any{"per_second": int(t.Part.Limit), "phase": phase},
		"latency": t.Part.Latency,
	}
	if t.Part.Media > 0 {
		settings["media"] = map[string]any{"per_second": int(t.Part.Media)}
	}
	if err := t.judge.Control(ctx, settings); err != nil {
		return err
	}
	for range t.Part.Replicas {
		if err := t.fleet.Join(ctx); err != nil {
			return err
		}
	}
	return nil
}

// How long dispatchers are given to take their places: one alone has its place at once,
// and a newcomer stays behind the others for five seconds.
const (
	aloneTime  = 2 * time.Second
	settleTime = 8 * time.Second
)

// awaitBegin gives the dispatchers the time to take their places, and begins at a
// whole second, so that the judge's seconds are the run's.
func (t *trial) awaitBegin(ctx context.Context) error {
	settle := aloneTime
	if t.Part.Replicas > 1 {
		settle = settleTime
	}
	t.began = time.Now().Truncate(time.Second).Add(settle)
	backoff.Sleep(ctx, time.Until(t.began))
	var ill []map[string]any
	for i, s := range t.Part.Streams {
		ill = append(ill, newSampler(s, t.Part.Room, t.id, 0, uint64(i)).sickness()...)
	}
	if ill != nil {
		if err := t.judge.Control(ctx, map[string]any{"inject": ill}); err != nil {
			return err
		}
	}
	before, err := t.judge.Totals(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	t.before = before
	t.started = t.usage()
	return nil
}

// usage reads what is known of the use; 0 is not known.
func (t *trial) usage() (u usage) {
	if t.fleet == nil {
		return u
	}
	cpu, err := machine.OwnCPU()
	if err != nil {
		return u
	}
	u = usage{machine: machine.Read(cpu), at: time.Now()}
	if n, known := t.fleet.Operations(); known { // else it is programs of somebody else
		u.operations, u.cpu = n, cpu
	}
	return u
}

// isAlone reports whether the whole system is in this process.
func (t *trial) isAlone() bool {
	if t.fleet == nil {
		return false
	}
	_, alone := t.fleet.Broker().(*networktest.Broker)
	return alone
}

// load makes the load and the steps, until both are over.
func (t *trial) load(ctx context.Context) error {
	all, loading := errgroup.WithContext(ctx)
	for i, s := range t.Part.Streams {
		tally := t.tally
		if s.Backlog {
			tally = new(load.Tally)
		}
		stream := t.stream(s, uint64(i))
		all.Go(func() error { return load.Run(loading, t.began, tally, stream) })
	}
	all.Go(func() error { return t.steps(loading) })
	err := all.Wait()
	if err != nil && ctx.Err() != nil {
		err = nil // it was asked to stop
	}
	if err == nil { // to its end, also where nothing was due at the last
		backoff.Sleep(ctx, time.Until(t.began.Add(t.Part.Length)))
	}
	t.length = min(t.ran(), t.Part.Length)
	return err
}

// stream is the load of the n-th stream.
func (t *trial) stream(s cases.Stream, n uint64) load.Stream {
	if t.users != nil {
		return t.users.Stream(s, t.Part.Setting, t.Seed, n)
	}
	d := newSampler(s, t.Part.Room, t.id, t.Seed, n)
	encode, to := message.Outbound.Encode, queue.Publisher(t.fleet.Broker())
	if peer, ok := t.fleet.(fleet.Outside); ok {
		encode, to = fleet.PeerBody, peer
	}
	o := &outbound{
		sampler: d, judge: t.judge, broker: to, encode: encode,
		queue: func(page string) string { return t.options.Queue(t.topology, page) },
	}
	return load.Stream{Schedule: d.schedule(t.Part.Setting), Do: o.do}
}

// steps does the part's steps in their order, at whole seconds. Restarts are spread over
// half of the length.
func (t *trial) steps(ctx context.Context) error {
	for _, s := range t.Part.Steps {
		times := 1
		if s.Do == cases.Restart {
			times = t.Part.Count(s)
		}
		for i := range times {
			at := time.Duration((s.At + .5*float64(i)/float64(times)) * float64(t.Part.Length)).Round(time.Second)
			if !backoff.Sleep(ctx, time.Until(t.began.Add(at))) {
				return nil
			}
			t.Log.Info("step", "at", t.ran(), "name", string(s.Do))
			if err := t.do(context.WithoutCancel(ctx), s); err != nil {
				return fmt.Errorf("%s: %w", s.Do, err)
			}
		}
	}
	return nil
}

// do makes one step.
func (t *trial) do(ctx context.Context, s cases.Step) error {
	join := func() error { return t.fleet.Join(ctx) }
	var do func() error
	switch s.Do {
	case cases.Limit:
		return t.setLimit(ctx, max(1, s.Size*t.Part.Limit), 0)
	case cases.OtherApp:
		return t.setLimit(ctx, t.Part.Limit, s.Size*t.Part.Limit)
	case cases.Restart:
		return errors.Join(t.fleet.Leave(), join())
	case cases.Kill:
		if do = t.fleet.Kill; t.Part.Replicas == 1 {
			if err := join(); err != nil {
				return err
			}
		}
	case cases.Leave:
		do = t.fleet.Leave
	case cases.Join:
		do = join
	}
	for range t.Part.Count(s) {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// setLimit changes the platform's limit, and what another app takes of it; the dispatchers
// are not told.
func (t *trial) setLimit(ctx context.Context, perSecond, other float64) error {
	t.limits = append(t.limits, limitChange{t.ran(), perSecond - other})
	return t.judge.Control(ctx, map[string]any{"text": map[string]any{"per_second": int(perSecond), "other_app": other}})
}

// grace is the time limit of the answers to calls that were made at the load's end,
// before the ledger is read.
const grace = time.Second

// settle waits for the rest, as long as the setting says.
func (t *trial) settle(ctx context.Context) error {
	if t.users != nil {
		t.users.Wait()
	}
	longest := max(t.Part.Drain, grace)
	if t.stopped {
		longest = grace
	}
	pending, err := awaitNone(ctx, t.judge, longest)
	t.arrived = pending == 0
	t.ended = t.usage()
	return err
}
