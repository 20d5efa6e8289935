package flow

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"chatclub/fakeapi"
	"chatclub/internal/backoff"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/strategy"
)

// pageLimit is the platform's published limit of text messages per second.
const pageLimit = 300

// The platform's own latency, and that of an API that is quick.
const (
	slow  = "700ms,1.9s"
	quick = "40ms,150ms"
)

// hop is one way between a program and its broker, in a data centre.
const hop = 300 * time.Microsecond

// rig is one run: a fleet and a load, in one bubble.
type rig struct {
	t       *testing.T
	row     row
	record  *record
	fleet   *fleet.Local
	redis   *miniredis.Miniredis // of the strategies that need one; nil: none does
	figures figures

	ctx    context.Context //nolint:containedctx // of the run, which ends with it
	cancel context.CancelFunc
	work   sync.WaitGroup // generators
	rng    *rand.Rand     // of the script alone

	options fleet.Options
	other   otherApp
	fault   atomic.Pointer[fault]
	refuses atomic.Pointer[func(queue.Message) bool]

	atKill int // messages in calls of the dispatchers that were killed
}

// fault makes a call in place of the sender, or reports that it does not.
type fault func(ctx context.Context, next dispatch.Caller, m message.Outbound) (sender.Result, bool)

// breaks has calls made by f from now on.
func (r *rig) breaks(f fault) { r.fault.Store(&f) }

// mends ends that.
func (r *rig) mends() { r.fault.Store(nil) }

// fails is the answer of an API that fails, after a time.
func fails(ctx context.Context, code int, after time.Duration) (sender.Result, bool) {
	res := sender.Result{Outcome: sender.Transient, Status: 500, Code: code, Latency: after, Err: errFault}
	if !backoff.Sleep(ctx, after) {
		res = sender.Result{Outcome: sender.Canceled, Err: ctx.Err()}
	}
	return res, true
}

// refuses is the answer of an API that takes nothing for this page, after a time.
func refuses(ctx context.Context, after time.Duration) (sender.Result, bool) {
	res, _ := fails(ctx, 613, after)
	if res.Outcome == sender.Transient {
		res.Outcome, res.Status = sender.PageThrottled, http.StatusForbidden
	}
	return res, true
}

// hangs is what a call to an API comes to that does not answer.
func hangs(ctx context.Context) (sender.Result, bool) {
	res, _ := fails(ctx, 0, callTimeout)
	if res.Outcome == sender.Transient {
		res.Status, res.Err = 0, context.DeadlineExceeded
	}
	return res, true
}

// callTimeout is the dispatcher's default.
const callTimeout = 10 * time.Second

var errFault = errors.New("the test's fault")

// play runs a row's script with a seed and returns its figures.
func play(t *testing.T, row row, seed uint64, script func(*rig)) (f figures) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, row, seed)
		script(r)
		r.close()
		f = r.figures
	})
	return f
}

func open(t *testing.T, row row, seed uint64) *rig {
	t.Helper()
	s := fakeapi.DefaultSettings()
	if err := s.Latency.UnmarshalText([]byte("lognormal:" + cmp.Or(row.latency, slow))); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, row: row, record: newRecord(), figures: make(figures), rng: rand.New(rand.NewPCG(seed, 0))}
	// No dispatcher knows where in a second the platform's windows begin.
	s.Text.Phase = fakeapi.Duration(r.rng.Int64N(int64(time.Second)))
	if row.settings != nil {
		row.settings(&s)
	}
	s.Text.PerSecond = cmp.Or(row.limit, s.Text.PerSecond)
	o := fleet.Options{
		Strategy: cmp.Or(row.strategy, fleet.Own), Replicas: row.replicas,
		Limit: float64(cmp.Or(row.limit, pageLimit)), MessageTTL: 24 * time.Hour,
	}
	if info, ok := strategy.Find(o.Strategy); ok && info.NeedsRedis {
		r.redis = miniredis.NewMiniRedis()
		r.redis.ClockTTL(true)
		o.RedisURL, o.KeyPrefix = "redis://127.0.0.1:6379", "flow"
	}
	r.options = o
	top := queue.Topology{Prefix: "flow", Partitions: cmp.Or(row.partitions, 64)}
	l, err := fleet.NewLocal(t.Context(), fleet.LocalConfig{
		Config: fleet.Config{
			Options: o, Topology: top, Seed: seed, Log: slog.New(slog.DiscardHandler),
			Wrap: func(c dispatch.Caller) dispatch.Caller { return recorded{c, r} },
		},
		Platform: &s, Seconds: 4000,
		Network: fleet.Network{Hop: hop, Capacity: row.capacity, Process: row.process(top), Refuse: func(m queue.Message) bool {
			f := r.refuses.Load()
			return f != nil && (*f)(m)
		}},
		Transport: r.there, Random: r.source,
		DialRedis: func(context.Context, string, string) (net.Conn, error) {
			c, err := r.redis.Dial()
			return trip{c}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.fleet = l
	l.API().Observe(func(a fakeapi.Acceptance) { r.record.accept(a.ID) })
	r.ctx, r.cancel = context.WithCancel(context.Background())
	for range row.replicas {
		r.join()
	}
	return r
}

// random makes a source of its own for one goroutine.
func (r *rig) random() *rand.Rand { return rand.New(rand.NewPCG(r.rng.Uint64(), r.rng.Uint64())) }

// source makes a dispatcher's source of random numbers.
func (r *rig) source() func() float64 {
	var mu sync.Mutex
	rng := r.random()
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	}
}

// recorded notes the calls that are made.
type recorded struct {
	dispatch.Caller
	rig *rig
}

func (c recorded) Send(ctx context.Context, m message.Outbound) sender.Result {
	begun := c.rig.now()
	if f := c.rig.fault.Load(); f != nil {
		if result, ok := (*f)(ctx, c.Caller, m); ok {
			c.rig.record.call(m.ID, begun, result.Outcome == sender.Sent)
			return result
		}
	}
	result := c.Caller.Send(ctx, m)
	c.rig.record.call(m.ID, begun, result.Outcome == sender.Sent)
	return result
}

// there makes a dispatcher's calls take their time to the platform, as far as
// the row says so.
func (r *rig) there(rt http.RoundTripper) http.RoundTripper {
	rng := r.random() // also where it is not used, so that a seed stands for one run of all rows
	if r.row.there == nil {
		return rt
	}
	return slowed{rt, r.row.there(rng)}
}

type slowed struct {
	http.RoundTripper
	by func() time.Duration
}

func (s slowed) RoundTrip(req *http.Request) (*http.Response, error) {
	if !backoff.Sleep(req.Context(), s.by()) {
		return nil, req.Context().Err()
	}
	return s.RoundTripper.RoundTrip(req)
}

// trip is a connection of a hop each way.
type trip struct{ net.Conn }

func (c trip) Write(b []byte) (int, error) {
	time.Sleep(2 * hop) // both ways at once: answers are waited for
	return c.Conn.Write(b)
}

// now is the time since the start of the run.
func (r *rig) now() time.Duration { return time.Since(r.record.start) }

// until waits for a time of the run.
func (r *rig) until(t time.Duration) { time.Sleep(t - r.now()) }

// topology returns the queues.
func (r *rig) topology() queue.Topology { return r.fleet.Broker().Topology() }

// join starts another dispatcher.
func (r *rig) join() { r.must(r.fleet.Join(r.ctx)) }

// leave ends dispatchers cleanly and waits for it.
func (r *rig) leave(which ...*fleet.Dispatcher) { r.must(r.fleet.Remove(which...)) }

func (r *rig) must(err error) {
	if err != nil {
		r.t.Error(err)
	}
}

// partition returns the queue of a page.
func (r *rig) partition(page int) string { return r.topology().OutboundOf(strconv.Itoa(page)) }

// owner is the dispatcher that sends for a page, or, if own is false, one that
// does not.
func (r *rig) owner(page int, own bool) *fleet.Dispatcher {
	owner := r.fleet.Owner(r.partition(page))
	for _, d := range r.fleet.Dispatchers() {
		if (d == owner) == own {
			return d
		}
	}
	r.t.Fatal("no dispatcher runs beside the owner")
	return nil
}

// killOwner ends a page's owner as kill −9 does: the calls that it has made stay
// made, and it settles nothing.
func (r *rig) killOwner(page int) {
	d, err := r.fleet.KillOwner(r.partition(page))
	if err != nil {
		r.t.Fatal(err)
	}
	r.atKill += joinTexts * d.InFlight()
}

// joinTexts is how many messages a call may carry, the dispatcher's default.
const joinTexts = 8

// close stops the load, then every dispatcher cleanly, and lets the judge speak:
// no message may be missing.
func (r *rig) close() {
	usage, err := r.fleet.Usage()
	r.must(err)
	sent := r.fleet.API().Ledger().Totals().Accepted
	r.cancel()
	r.work.Wait()
	if r.redis != nil {
		defer r.redis.Close()
	}
	defer func() { r.must(r.fleet.Close(context.Background())) }()
	r.must(r.fleet.Stop(context.Background()))
	for _, e := range r.fleet.Errors() {
		r.t.Error(e)
	}
	time.Sleep(time.Second) // what is on the wire arrives
	for r.fleet.Delayed() > 0 {
		time.Sleep(time.Second)
	}
	left, tokens := r.leftovers()
	for name := range tokens { // a lane without one would never be sent
		if !tokens[name] {
			r.t.Errorf("lane %s has messages and no token", name)
		}
	}
	v := r.record.judge(left)
	r.agree(v)
	r.figures[lost] = float64(v.missing)
	r.figures[doubled] = float64(v.doubled)
	if v.missing > 0 {
		r.t.Errorf("%d of %d messages were lost, want none", v.missing, v.published)
	}
	if v.doubled > r.atKill && !r.row.doubles {
		r.t.Errorf("%d messages were sent twice, want at most the %d in calls of killed dispatchers", v.doubled, r.atKill)
	}
	r.figures[inversions] = float64(v.inversions) / float64(max(v.accepted, 1))
	r.figures[callsPer] = float64(r.fleet.API().Ledger().Totals().Calls) / float64(max(v.accepted, 1))
	if len(left) == 0 {
		r.figures[operations] = float64(*usage.Operations) / float64(max(sent, 1))
	}
	if odd := r.fleet.API().Ledger().Totals(); odd.Errors+odd.Rejected+odd.Unidentified > 0 && r.other.cells == nil {
		r.t.Errorf("%d calls failed, %d were rejected, %d had no id, want only acceptances and 613s", odd.Errors, odd.Rejected, odd.Unidentified)
	}
}

// leftovers takes what is left off all queues. tokens has an entry for each lane
// with messages: whether its token is there.
func (r *rig) leftovers() (left []string, tokens map[string]bool) {
	tokens = make(map[string]bool)
	found := make(map[string]bool)
	names := r.fleet.Queues()
	slices.Sort(names)
	for _, name := range names {
		for _, m := range r.drain(name) {
			if lane := r.topology().LaneOf(m); lane != "" {
				found[lane] = true
				continue
			}
			if name == r.topology().Inbound() || m.Headers[message.HeaderHello] != "" {
				continue // what core would be told, and dispatchers
			}
			left = append(left, m.ID)
			if name == r.topology().Dead() && !r.row.deaths {
				r.t.Errorf("message %s is dead: %v", m.ID, m.Headers)
			}
			if strings.HasPrefix(name, r.topology().Prefix+".lane.") {
				tokens[name] = false
			}
		}
	}
	for name := range tokens {
		tokens[name] = found[name]
	}
	return left, tokens
}

// drain takes everything off a queue that has no other consumer.
func (r *rig) drain(name string) (got []queue.Message) {
	info, err := r.fleet.Broker().Inspect(context.Background(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	if info.Consumers > 0 {
		r.t.Fatalf("%s has %d consumers at the end, want 0", name, info.Consumers)
	}
	if info.Ready == 0 {
		return nil
	}
	sub, err := r.fleet.Broker().Consume(name, queue.ConsumeOptions{Prefetch: info.Ready})
	if err != nil {
		r.t.Fatal(err)
	}
	for range info.Ready {
		d := <-sub.Deliveries()
		r.must(d.Ack())
		got = append(got, d.Message)
	}
	r.must(sub.Close())
	return got
}

// agree checks the record against the judge's ledger. They write down one call
// after the other, so calls of two dispatchers for one recipient in the same
// instant may stand there in either order.
func (r *rig) agree(v verdict) {
	got := r.fleet.API().Ledger().Totals()
	for _, c := range []struct {
		name            string
		got, want, most int64 // most: by which they may differ
	}{
		{"lost", got.Lost, int64(v.published - v.accepted), 0},
		{"duplicated", got.Duplicated, int64(v.repeated), 0},
		{"inversions", got.Inversions, int64(v.inversions), 2 + int64(v.inversions)/50},
	} {
		if c.name == "inversions" && r.row.media { // the ledger does not tell classes apart
			continue
		}
		if c.got < c.want-c.most || c.got > c.want+c.most {
			r.t.Errorf("the ledger's %s = %d, the record's %d", c.name, c.got, c.want)
		}
	}
}
