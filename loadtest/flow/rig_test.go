package flow

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/loadtest/report"

	"chatclub/fakeapi"
	"chatclub/internal/backoff"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
	"chatclub/internal/queue/leftover"
	"chatclub/internal/queue/memory/networktest"
	"chatclub/internal/sender"
	"chatclub/loadtest/fleet"
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
	figures report.Figures

	ctx    context.Context //nolint:containedctx // of the run, which ends with it
	cancel context.CancelFunc
	work   sync.WaitGroup // generators
	rng    *rand.Rand     // of the script alone

	fault atomic.Pointer[fault]

	atKill int // messages in calls of the dispatchers that were killed
}

// fault makes the calls of a page in place of the sender, or those of all pages.
type fault struct {
	page int // everyPage: all
	do   func(ctx context.Context, next dispatch.Caller, m message.Outbound) sender.Result
}

const everyPage = 0

// breaks has a page's calls made by do from now on.
func (r *rig) breaks(page int, do func(context.Context, dispatch.Caller, message.Outbound) sender.Result) {
	r.fault.Store(&fault{page, do})
}

// mends ends that.
func (r *rig) mends() { r.fault.Store(nil) }

// fails is the answer of an API that fails, after a time.
func fails(ctx context.Context, code int, after time.Duration) sender.Result {
	if !backoff.Sleep(ctx, after) {
		return sender.Result{Outcome: sender.Canceled, Err: ctx.Err()}
	}
	return sender.Result{Outcome: sender.Transient, Status: 500, Code: code, Latency: after, Err: errFault}
}

// refuses is the answer of an API that takes nothing for this page, after a time.
func refuses(ctx context.Context, after time.Duration) sender.Result {
	res := fails(ctx, 613, after)
	if res.Outcome == sender.Transient {
		res.Outcome, res.Status = sender.PageThrottled, http.StatusForbidden
	}
	return res
}

// hangs is the result of a call to an API that does not answer.
func hangs(ctx context.Context) sender.Result {
	res := fails(ctx, 0, callTimeout)
	if res.Outcome == sender.Transient {
		res.Status, res.Err = 0, context.DeadlineExceeded
	}
	return res
}

// callTimeout is the dispatcher's default.
const callTimeout = 10 * time.Second

var errFault = errors.New("the test's fault")

// play runs a row's script with a seed and returns its figures.
func play(t *testing.T, row row, seed uint64, script func(*rig)) (f report.Figures) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, row, seed)
		script(r)
		r.close()
		f = r.figures
	})
	return f
}

// settleTime is the time in which the dispatchers of the start get the partitions that they
// keep: what newcomers take from others has rows of its own.
const settleTime = partitions.TrialTime + 2*time.Second

func open(t *testing.T, row row, seed uint64) *rig {
	t.Helper()
	s := fakeapi.DefaultSettings()
	if err := s.Latency.UnmarshalText([]byte("lognormal:" + cmp.Or(row.latency, slow))); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, row: row, record: newRecord(), figures: make(report.Figures), rng: rand.New(rand.NewPCG(seed, 0))}
	// No dispatcher knows where in a second the platform's windows begin.
	s.Text.Phase = fakeapi.Duration(r.rng.Int64N(int64(time.Second)))
	if row.settings != nil {
		row.settings(&s)
	}
	s.Text.PerSecond = cmp.Or(row.limit, s.Text.PerSecond)
	o := fleet.Options{Strategy: report.Own, Replicas: row.replicas, Limit: float64(cmp.Or(row.limit, pageLimit)), MessageTTL: 24 * time.Hour}
	top := queue.Topology{Prefix: "flow", Partitions: cmp.Or(row.partitions, 64)}
	l, err := fleet.NewLocal(t.Context(), fleet.Config{
		Options: o, Topology: top, Seed: seed, Log: slog.New(unexplained{slog.DiscardHandler, t}),
		Wrap:   func(c dispatch.Caller) dispatch.Caller { return recorded{c, r} },
		Fake:   &s,
		Memory: networktest.Options{Hop: hop, Capacity: row.capacity, Process: row.process()},
		Random: r.source,
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
	time.Sleep(settleTime)
	r.record.start = time.Now()
	return r
}

// unexplained is a log in which no message may wait without a reason.
type unexplained struct {
	slog.Handler
	t *testing.T
}

// Enabled implements slog.Handler.
func (unexplained) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

// Handle implements slog.Handler.
func (u unexplained) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "messages wait without a reason") {
		u.t.Error(r.Message)
		r.Attrs(func(a slog.Attr) bool { u.t.Log(a); return true })
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (u unexplained) WithAttrs([]slog.Attr) slog.Handler { return u }

// WithGroup implements slog.Handler.
func (u unexplained) WithGroup(string) slog.Handler { return u }

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
	var result sender.Result
	if f := c.rig.fault.Load(); f != nil && (f.page == everyPage || m.Page == strconv.Itoa(f.page)) {
		result = f.do(ctx, c.Caller, m)
	} else {
		result = c.Caller.Send(ctx, m)
	}
	c.rig.record.call(m.ID, begun, result.Outcome == sender.Sent)
	return result
}

// Reach is answered as calls are while all pages are broken.
func (c recorded) Reach(ctx context.Context) error {
	if f := c.rig.fault.Load(); f != nil && f.page == everyPage {
		if r := f.do(ctx, c.Caller, message.Outbound{}); r.Status == 0 {
			return r.Err
		}
	}
	return c.Caller.Reach(ctx)
}

// Ask is answered as calls are.
func (c recorded) Ask(ctx context.Context, page string) sender.Result {
	if f := c.rig.fault.Load(); f != nil && f.page == everyPage {
		return f.do(ctx, c.Caller, message.Outbound{Page: page})
	}
	return c.Caller.Ask(ctx, page)
}

// now is the time since the start of the run.
func (r *rig) now() time.Duration { return time.Since(r.record.start) }

// until waits for a time of the run.
func (r *rig) until(t time.Duration) { time.Sleep(t - r.now()) }

// topology returns the queues.
func (r *rig) topology() queue.Topology { return r.fleet.Broker().Topology() }

// join starts another dispatcher.
func (r *rig) join() { r.must(r.fleet.Join(r.ctx)) }

// saturates has three times its limit be sent to the hot page, until a time.
func (r *rig) saturates(until time.Duration) {
	r.demand(saturate(hot, 3*pageLimit))
	r.until(until)
}

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
	d := r.owner(page, true)
	r.must(r.fleet.Crash(d))
	r.atKill += joinTexts * d.Way.InFlight()
}

// joinTexts is the largest number of messages in a call, the dispatcher's default.
const joinTexts = 8

// close stops the load, then every dispatcher cleanly, and lets the judge speak:
// no message may be missing.
func (r *rig) close() {
	operations, _ := r.fleet.Operations()
	sent := r.fleet.API().Ledger().Totals().Accepted
	r.cancel()
	r.work.Wait()
	defer func() { r.must(r.fleet.Close()) }()
	r.must(r.fleet.Stop())
	for _, e := range r.fleet.Errors() {
		r.t.Error(e)
	}
	left := r.leftovers()
	slices.Sort(left)
	left = slices.Compact(left)
	book := r.fleet.API().Ledger()
	awaited := book.Excuse(left...)
	t := book.Totals()
	lost, doubled := int(t.Lost), int(t.Duplicated)+len(left)-awaited // an accepted one on a queue would be sent again
	r.figures[report.Lost], r.figures[report.Duplicated] = float64(lost), float64(doubled)
	if lost > 0 {
		r.t.Errorf("%d of %d messages were lost, want none", lost, t.Expected)
	}
	if doubled > r.atKill && !r.row.doubles {
		r.t.Errorf("%d messages were sent twice, want at most the %d in calls of killed dispatchers", doubled, r.atKill)
	}
	accepted := float64(max(t.Accepted-t.Duplicated-t.Unexpected-t.Unidentified, 1))
	r.figures[report.Inversions] = float64(t.Inversions) / accepted
	r.figures[report.Calls] = float64(t.Calls) / accepted
	if len(left) == 0 {
		r.figures[report.Operations] = float64(operations) / float64(max(sent, 1))
	}
	if t.Errors+t.Rejected+t.Unidentified > 0 {
		r.t.Errorf("%d calls failed, %d were rejected, %d had no id, want only acceptances and 613s", t.Errors, t.Rejected, t.Unidentified)
	}
}

// leftovers takes the messages that are left off all queues, but for what core would be
// told.
func (r *rig) leftovers() (left []string) {
	ctx, b := context.Background(), r.fleet.Broker()
	found, err := leftover.Take(ctx, b)
	r.must(err)
	dead, err := leftover.Empty(ctx, b, r.topology().Dead())
	r.must(err)
	for _, d := range append(found, dead...) {
		if !r.topology().IsInbound(d.Queue) {
			left = append(left, d.ID)
		}
	}
	if len(dead) > 0 && !r.row.deaths {
		r.t.Errorf("%d messages are dead, such as %s: %v", len(dead), dead[0].ID, dead[0].Headers)
	}
	return left
}
