package flow

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"chatclub/fakeapi"
	"chatclub/internal/backoff"
	"chatclub/internal/dispatch"
	"chatclub/internal/loadtest/fleet"
	"chatclub/internal/loadtest/strategy"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// pageLimit is the platform's published limit of text messages per second.
const pageLimit = 300

// lanePrefetch is the dispatcher's default.
const lanePrefetch = 512

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

	other otherApp

	atKill int // calls in flight of the dispatchers that were killed
}

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
	if err := s.Latency.UnmarshalText([]byte("lognormal:40ms,150ms")); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, row: row, record: newRecord(), figures: make(figures), rng: rand.New(rand.NewPCG(seed, 0))}
	// No dispatcher knows where in a second the platform's windows begin.
	s.Text.Phase = fakeapi.Duration(r.rng.Int64N(int64(time.Second)))
	if row.settings != nil {
		row.settings(&s)
	}
	lanes := row.lanes
	if lanes == 0 {
		lanes = 16
	}
	o := fleet.Options{Strategy: row.strategy, Replicas: row.replicas, Limit: pageLimit, MessageTTL: 24 * time.Hour}
	if o.Strategy == "" {
		o.Strategy = "chatclub"
	}
	if info, ok := strategy.Find(o.Strategy); ok && info.NeedsRedis {
		r.redis = miniredis.NewMiniRedis()
		r.redis.ClockTTL(true)
		o.RedisURL, o.KeyPrefix = "redis://127.0.0.1:6379", "flow"
	}
	top := queue.Topology{Prefix: "flow", Lanes: lanes}
	l, err := fleet.NewLocal(fleet.LocalConfig{
		Config: fleet.Config{
			Options: o, Topology: top, Seed: seed, Log: slog.New(slog.DiscardHandler),
			Wrap: func(c dispatch.Caller) dispatch.Caller { return recorded{c, r.record} },
		},
		Platform: &s, Seconds: 4000,
		Network: fleet.Network{Hop: hop, Capacity: row.capacity, Published: func(m queue.Message) {
			if strings.HasPrefix(m.Queue, top.Prefix+".lane.") {
				r.record.toLane(m.ID)
			}
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

// recorded notes when the answer to a message came.
type recorded struct {
	dispatch.Caller
	record *record
}

func (c recorded) Send(ctx context.Context, m message.Outbound) sender.Result {
	result := c.Caller.Send(ctx, m)
	if result.Outcome == sender.Sent {
		c.record.answer(m.ID)
	}
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

// owner is the dispatcher that drains a page's lane, or, if own is false, one
// that does not.
func (r *rig) owner(page int, own bool) *fleet.Dispatcher {
	owner := r.fleet.Owner(r.topology().LaneOf(strconv.Itoa(page)))
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
	d, err := r.fleet.KillOwner(r.topology().LaneOf(strconv.Itoa(page)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.atKill += d.InFlight()
}

// close stops the load, then every dispatcher cleanly, and lets the judge speak:
// no message may be missing.
func (r *rig) close() {
	usage, err := r.fleet.Usage()
	r.must(err)
	sent := r.series("", window{0, r.now() + time.Second}).Accepted
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
	var left []string
	for _, s := range r.topology().Specs() {
		for _, m := range r.drain(s.Name) {
			left = append(left, m.ID)
			if s.Name == r.topology().Dead() {
				r.t.Errorf("message %s is dead: %v", m.ID, m.Headers)
			}
		}
	}
	v := r.record.judge(left)
	r.agree(v)
	r.figures[lost] = float64(v.missing)
	r.figures[doubled] = float64(v.doubled)
	if v.missing > 0 {
		r.t.Errorf("%d of %d messages were lost, want none", v.missing, v.published)
	}
	if v.doubled > r.atKill {
		r.t.Errorf("%d messages were sent twice, want at most the %d calls in flight of killed dispatchers", v.doubled, r.atKill)
	}
	r.figures[inversions] = float64(v.inversions) / float64(max(v.accepted, 1))
	r.figures[overtaken] = float64(v.overtaken)
	if len(left) == 0 {
		r.figures[operations] = float64(*usage.Operations) / float64(sent)
	}
	if odd := r.fleet.API().Ledger().Totals(); odd.Errors+odd.Rejected+odd.Unidentified > 0 {
		r.t.Errorf("%d calls failed, %d were rejected, %d had no id, want only acceptances and 613s", odd.Errors, odd.Rejected, odd.Unidentified)
	}
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
		if c.got < c.want-c.most || c.got > c.want+c.most {
			r.t.Errorf("the ledger's %s = %d, the record's %d", c.name, c.got, c.want)
		}
	}
}
