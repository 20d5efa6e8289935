package flow

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// pageLimit is the platform's published limit of text messages per second.
const pageLimit = 300

// lanePrefetch is the dispatcher's default.
const lanePrefetch = 512

// rig is one run: a platform, a broker, replicas and a load, in one bubble.
type rig struct {
	t        *testing.T
	row      row
	top      queue.Topology
	book     *book
	platform *platform
	hub      *hub
	source   *client              // of those who publish
	redis    *miniredis.Miniredis // of the strategies that need one; nil: nobody does
	figures  figures

	ctx    context.Context //nolint:containedctx // of the run, which ends with it
	cancel context.CancelFunc
	work   sync.WaitGroup // generators
	rng    *rand.Rand     // of the script alone

	replicas []*replica // all that ever ran
	atKill   int        // calls in flight of those that were killed
}

// replica is one dispatcher.
type replica struct {
	*client
	*way
	cancel context.CancelFunc
	done   chan error
	ended  bool
}

// play runs a row's script with a seed and returns its figures.
func play(t *testing.T, row row, seed uint64, script func(*rig)) (f figures) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, row, seed)
		defer r.hub.close(t)
		if r.redis != nil {
			defer r.redis.Close()
		}
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
	if row.gate == nil {
		row.gate = chatclub
	}
	if row.there == nil {
		row.there = func(*rand.Rand) func() time.Duration { return nil }
	}
	r := &rig{t: t, row: row, book: newBook(), figures: make(figures), rng: rand.New(rand.NewPCG(seed, 0))}
	// Where in a second the platform's windows begin is not known to anybody.
	s.Text.Phase = fakeapi.Duration(r.rng.Int64N(int64(time.Second)))
	if row.settings != nil {
		row.settings(&s)
	}
	lanes := row.lanes
	if lanes == 0 {
		lanes = 16
	}
	r.top = queue.Topology{Prefix: "flow", Lanes: lanes}
	r.platform = newPlatform(t, seed, s, r.book)
	r.hub = newHub(t, r.top, row.capacity, func(m queue.Message) {
		if strings.HasPrefix(m.Queue, r.top.Prefix+".lane.") {
			r.book.toLane(m.ID)
		}
	})
	r.source = r.hub.connect()
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if row.strategy != "" {
		r.redis = miniredis.NewMiniRedis()
		r.redis.ClockTTL(true)
	}
	for range row.replicas {
		r.join()
	}
	return r
}

// random makes a source of its own for one goroutine.
func (r *rig) random() *rand.Rand { return rand.New(rand.NewPCG(r.rng.Uint64(), r.rng.Uint64())) }

// now is the time since the start of the run.
func (r *rig) now() time.Duration { return time.Since(r.book.start) }

// until waits for a time of the run.
func (r *rig) until(t time.Duration) { time.Sleep(t - r.now()) }

// join starts another replica.
func (r *rig) join() *replica {
	rep := &replica{client: r.hub.connect(), way: &way{platform: r.platform, there: r.row.there(r.random())}, done: make(chan error, 1)}
	send, err := sender.New(sender.Config{
		BaseURL: "http://fake/v23.0", Tokens: tokens{}, Transport: rep.way, MaxInFlight: 512, CallTimeout: 10 * time.Second,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var mu sync.Mutex
	rng := r.random()
	random := func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	}
	gate, stop := r.gate(random)
	d, err := dispatch.New(dispatch.Config{
		Broker: rep.client, Sender: send, Gate: gate,
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Random: random,
		Prefetch: 1024, LanePrefetch: lanePrefetch, MaxInFlight: 512, MaxAttempts: 8, MessageTTL: 24 * time.Hour, ShutdownTimeout: 20 * time.Second,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	rep.cancel = cancel
	go func() {
		err := d.Run(ctx)
		rep.done <- errors.Join(err, stop())
	}()
	r.replicas = append(r.replicas, rep)
	return rep
}

// tokens are the judge's.
type tokens struct{}

func (tokens) Token(page string) (string, bool) { return "token-" + page, true }

// leave ends replicas cleanly and waits for it.
func (r *rig) leave(reps ...*replica) {
	for _, rep := range reps {
		rep.cancel()
	}
	for _, rep := range reps {
		if rep.ended {
			continue
		}
		rep.ended = true
		if err := <-rep.done; err != nil {
			r.t.Errorf("Run() = %v, want nil", err)
		}
		if err := rep.Close(); err != nil {
			r.t.Errorf("Close() = %v, want nil", err)
		}
	}
}

// kill ends a replica as kill −9 does: the calls that it has made stay made,
// and it settles nothing.
func (r *rig) kill(rep *replica) {
	r.atKill += int(rep.inFlight.Load())
	rep.health.Store(int32(hung))
	rep.kill()
	rep.cancel()
	rep.ended = true
	<-rep.done // the bubble's goroutines end; whatever it says concerns nobody
}

// living are the replicas that run.
func (r *rig) living() (list []*replica) {
	for _, rep := range r.replicas {
		if !rep.ended {
			list = append(list, rep)
		}
	}
	return list
}

// owner is the replica that drains a page's lane, or, if own is false, one that
// does not. Without lanes in use it is any.
func (r *rig) owner(page int, own bool) *replica {
	c := r.hub.owner(r.top.LaneOf(strconv.Itoa(page)))
	living := r.living()
	for _, rep := range living {
		if (rep.client == c) == own {
			return rep
		}
	}
	return living[0]
}

// close stops the load, then every replica cleanly, and lets the judge speak:
// no message may be missing.
func (r *rig) close() {
	end := window{0, r.now()}
	ops := r.hub.ops()
	r.cancel()
	r.work.Wait()
	r.leave(r.living()...)
	if err := r.source.Close(); err != nil {
		r.t.Errorf("Close() = %v, want nil", err)
	}
	time.Sleep(time.Second) // what is on the wire arrives
	var left []string
	for _, s := range r.top.Specs() {
		for _, m := range r.hub.drain(r.t, s.Name) {
			left = append(left, m.ID)
			if s.Name == r.top.Dead() {
				r.t.Errorf("message %s is dead: %v", m.ID, m.Headers)
			}
		}
	}
	v := r.book.judge(left)
	r.agree(v)
	r.figures[lost] = float64(v.missing)
	r.figures[doubled] = float64(v.doubled)
	if v.missing > 0 {
		r.t.Errorf("%d of %d messages were lost, want none", v.missing, v.published)
	}
	if v.doubled > r.atKill {
		r.t.Errorf("%d messages were sent twice, want at most the %d calls in flight of killed replicas", v.doubled, r.atKill)
	}
	r.figures[inversions] = float64(v.inversions) / float64(max(v.accepted, 1))
	r.figures[overtaken] = float64(v.overtaken)
	if len(left) == 0 {
		sent, _ := r.book.all(end)
		r.figures[operations] = float64(ops) / float64(sent)
	}
	if odd := r.platform.odd.Load(); odd != nil {
		r.t.Errorf("an answer that the load does not account for: %s", *odd)
	}
}

// agree checks the book against the judge's ledger. They write down one call
// after the other, so calls of two replicas for one recipient in the same
// instant may stand there in either order.
func (r *rig) agree(v verdict) {
	got := r.platform.api.Ledger().Totals()
	for _, c := range []struct {
		name            string
		got, want, most int64 // most: by which they may differ
	}{
		{"lost", got.Lost, int64(v.published - v.accepted), 0},
		{"duplicated", got.Duplicated, int64(v.repeated), 0},
		{"inversions", got.Inversions, int64(v.inversions), 2 + int64(v.inversions)/50},
	} {
		if c.got < c.want-c.most || c.got > c.want+c.most {
			r.t.Errorf("the ledger's %s = %d, the book's %d", c.name, c.got, c.want)
		}
	}
}
