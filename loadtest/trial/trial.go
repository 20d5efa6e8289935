package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
)

// The entries.
const (
	ViaOutbound = "outbound" // copies straight onto the queue
	ViaWebhook  = "webhook"  // signed events through the whole system
)

// Config of a trial. Plan, Open, Strategy, Topology and Log must be set.
type Config struct {
	Plan     Plan
	Open     func(context.Context, fleet.Config) (fleet.Fleet, error)
	Strategy string
	Via      string // default ViaOutbound
	Secret   string // signs the events; for ViaWebhook
	Seed     uint64 // the same seed is the same demand
	RedisURL string // for the strategies that need it
	Topology queue.Topology
	Rest     time.Duration // between the start of the dispatchers and the load
	Log      *slog.Logger
	Progress func(Progress)                        // nil: none
	Wrap     func(dispatch.Caller) dispatch.Caller // see fleet.Config

	// Running says that the system runs already and goes on afterwards: the
	// platform is taken as it is, no dispatcher is started or stopped, and no
	// queue is looked at.
	Running bool
	Pages   []string // ids of the pages to use in place of the plan's; nil: those
}

// trial is one that runs.
type trial struct {
	Config
	options  fleet.Options
	fleet    fleet.Fleet
	judge    *judge.Judge
	controls *Controls
	dead     *deadLetters
	hook     *webhook // nil but for ViaWebhook
	recorder *recorder
	tally    *load.Tally
	foreign  []*otherApp
	id       string        // of this trial
	earlier  ledger.Counts // before it
	before   ledger.Counts // when the load began
	started  fleet.Usage
	ended    fleet.Usage
	length   time.Duration // of the load that ran
	measured time.Duration // between started and ended
	arrived  bool          // all of it, in the end
	drained  time.Duration // after begin, when the last had arrived; 0 unless all has
	stopped  bool          // before its end
	late     []string      // steps of the script
	notes    []string
}

// Run runs the trial. When ctx ends the load stops, and what ran is judged:
// the run's status is then Interrupted. The error is of the harness; a system
// that fails is a result.
func Run(ctx context.Context, cfg Config) (_ report.Run, err error) {
	if cfg.Via == "" {
		cfg.Via = ViaOutbound
	}
	if err := cfg.Plan.fits(cfg.Via); err != nil {
		return report.Run{}, err
	}
	if cfg.Plan.Length > ledger.Kept {
		return report.Run{}, fmt.Errorf("a load of %v is longer than the %v for which the ledger keeps the seconds", cfg.Plan.Length, ledger.Kept)
	}
	if cfg.Running {
		if cfg.Via != ViaWebhook {
			return report.Run{}, errors.New("not on a running deployment: via outbound, its only entry is its webhook")
		}
		if err := cfg.Plan.Deployable(ctx, cfg.Strategy); err != nil {
			return report.Run{}, err
		}
	}
	if cfg.Pages != nil {
		if cfg.Plan, err = cfg.Plan.on(cfg.Pages); err != nil {
			return report.Run{}, err
		}
	}
	t := &trial{Config: cfg, tally: load.NewTally(), id: strconv.FormatUint(rand.Uint64(), 36)}
	defer func() {
		err = errors.Join(err, t.putBack(ctx))
		if t.fleet != nil {
			err = errors.Join(err, t.fleet.Close(context.WithoutCancel(ctx)))
		}
	}()
	return t.run(ctx)
}

func (t *trial) run(ctx context.Context) (report.Run, error) {
	err := t.open(ctx)
	if t.dead != nil {
		defer t.dead.close()
	}
	if err != nil && ctx.Err() != nil {
		return t.nothing(err), nil
	} else if err != nil {
		return report.Run{}, err
	}
	streams, err := t.streams()
	if err != nil {
		return report.Run{}, err
	}
	if err := t.awaitBegin(ctx); err != nil {
		return report.Run{}, err
	}
	if err := t.load(ctx, streams); err != nil {
		return report.Run{}, err
	}
	t.stopped = ctx.Err() != nil
	ctx = context.WithoutCancel(ctx) // the user who stops the run wants to know what ran
	if err := t.settle(ctx); err != nil {
		return report.Run{}, err
	}
	run, err := t.verdict(ctx)
	if t.stopped {
		run.Status, run.Reason = report.Interrupted, fmt.Sprintf("stopped after %v of %v", t.length.Round(time.Second), t.Plan.Length)
	}
	return run, err
}

// nothing is the run that was stopped before it could begin.
func (t *trial) nothing(err error) report.Run {
	return report.Run{
		Figures: report.Figures{Strategy: t.Strategy, Replicas: t.Plan.Replicas}, Status: report.Interrupted,
		Reason: fmt.Sprintf("stopped before the load began: %v", err), Notes: t.notes,
	}
}

// ran is how long the load has been running, 0 before its begin.
func (t *trial) ran() time.Duration { return max(0, time.Since(t.controls.begin)) }

// open starts the system, and lets the users join where there are any.
func (t *trial) open(ctx context.Context) (err error) {
	o := t.Plan.Options
	o.Media = t.Plan.Media
	o.Strategy, o.Replicas, o.Limit, o.RedisURL = t.Strategy, t.Plan.Replicas, t.Plan.Limit, t.RedisURL
	o.KeyPrefix = "loadtest:" + t.id
	t.options = o
	if t.fleet, err = t.Open(ctx, fleet.Config{Options: o, Topology: t.Topology, Pages: t.Plan.pages(), Seed: t.Seed, Log: t.Log, Wrap: t.Wrap}); err != nil {
		t.fleet = nil // a nil pointer in an interface is not nil
		return err
	}
	platform := t.fleet.Platform()
	if t.judge, err = judge.New(platform.URL, platform.Transport); err != nil {
		return err
	}
	t.controls = &Controls{fleet: t.fleet, judge: t.judge, limits: []limitChange{{0, t.Plan.hotLimit()}}}
	if t.Running {
		err = t.checkRunning(ctx)
	} else {
		err = t.start(ctx)
	}
	if err != nil || t.Via != ViaWebhook {
		return err
	}
	ingress := fleet.Ingress{Secret: t.Secret, Capacity: t.Plan.Room, Shared: t.Strategy != report.Own}
	url, err := t.fleet.Ingress(ctx, ingress)
	if err != nil {
		return err
	}
	t.hook = newWebhook(url, t.Secret, t.id, t.judge)
	return t.hook.join(ctx, t.Plan)
}

// start makes the platform and the dispatchers of a system of its own.
func (t *trial) start(ctx context.Context) (err error) {
	if err := t.judge.Control(ctx, t.Plan.Platform); err != nil {
		return err
	}
	if t.dead, err = openDeadLetters(t.fleet.Broker()); err != nil {
		return err
	}
	if err := t.controls.Join(ctx, t.Plan.Replicas); err != nil {
		return err
	}
	if !backoff.Sleep(ctx, t.Rest) {
		return ctx.Err()
	}
	return nil
}

// queue is where copies for a page go.
func (t *trial) queue(page string) string { return t.options.Queue(t.Topology, page) }

// streams are the load of the plan.
func (t *trial) streams() ([]load.Stream, error) {
	var list []load.Stream
	encode, to := message.Outbound.Encode, queue.Publisher(t.fleet.Broker())
	outside, isOutside := t.fleet.(fleet.Outside)
	if isOutside {
		to = outside
	}
	if isOutside || t.Strategy == fleet.Bare {
		encode = fleet.BareBody
	}
	for i, s := range t.Plan.Streams {
		d := newSampler(s, t.Plan.Room, t.id, t.Seed, uint64(i))
		do := (&outbound{sampler: d, judge: t.judge, broker: to, encode: encode, queue: t.queue}).do
		if t.Via == ViaWebhook {
			if t.Plan.Room < 2 {
				return nil, errors.New("via webhook: a room needs at least 2 members")
			}
			do = (&webhookLoad{sampler: d, hook: t.hook, slots: make(chan struct{}, maxPosts)}).do
		}
		list = append(list, load.Stream{Schedule: d.schedule(), Do: do})
	}
	return list, nil
}

// awaitBegin gives the dispatchers a second to see each other, and begins at a
// whole second, so that the judge's seconds are the run's.
func (t *trial) awaitBegin(ctx context.Context) error {
	begin := time.Now().Truncate(time.Second).Add(2 * time.Second)
	t.controls.begin, t.recorder = begin, newRecorder(t.Plan.followed(), begin)
	for _, f := range t.Plan.Foreign {
		t.foreign = append(t.foreign, newOtherApp(f, t.fleet.Platform(), begin))
	}
	backoff.Sleep(ctx, time.Until(begin))
	if err := t.sicken(ctx); err != nil {
		return err
	}
	var err error
	if t.before, err = t.judge.Totals(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	t.started, err = t.fleet.Usage()
	return err
}
