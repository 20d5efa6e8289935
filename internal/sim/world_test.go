package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/internal/core"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/networktest"
	"chatclub/internal/rooms"
	"chatclub/internal/sender"
	"chatclub/internal/submit"
	"chatclub/internal/webhook"
)

const secret = "s"

// scene is all that a seed decides before the play, but for the faults.
type scene struct {
	seed      uint64
	pages     []string
	people    map[string][]string
	limit     int // texts a second of each page
	keepsDead bool
	lively    int // tenths of the chance that somebody writes, each half second
	recipient float64
	joins     int
	fresh     time.Duration
}

func newScene(seed uint64) scene {
	r := rand.New(rand.NewPCG(seed, 1))
	s := scene{
		seed: seed, people: make(map[string][]string), limit: 10 + r.IntN(60), keepsDead: seed%2 == 1, lively: 1 + r.IntN(8),
		joins: []int{0, 0, 4}[r.IntN(3)],
	}
	if r.IntN(4) == 0 {
		s.recipient, s.joins = .5, 0 // a person is written more, singly
	}
	for i := range 2 + r.IntN(3) {
		page := fakeapi.PageID(i)
		s.pages = append(s.pages, page)
		for k := range 3 + r.IntN(12) {
			s.people[page] = append(s.people[page], fmt.Sprintf("9%02d%03d", i, k))
		}
	}
	return s
}

// program is a core or a dispatcher.
type program struct {
	*link
	way    *way // nil: a core
	disp   *dispatch.Dispatcher
	reg    *prometheus.Registry
	cancel context.CancelFunc
	done   chan error
	busy   atomic.Bool // a fault of its own is on
}

// entry is a line of the history.
type entry struct {
	at                   time.Duration
	who, what, queue, id string
}

func (e entry) String() string {
	return fmt.Sprintf("%9.3f %-8s %-28s %-16s %s", e.at.Seconds(), e.who, e.what, e.queue, e.id)
}

// text is what a person wrote.
type text struct {
	page, mid, user  string
	posted, answered time.Duration
	begun, ended     int  // places in the order of all beginnings and ends of posts
	stable           bool // all members of its room stay
}

// fate is what became of one copy.
type fate struct {
	page      string
	published time.Duration // first
	place     int           // of its first publish
	times     int           // accepted
	first     time.Duration // accepted
	dead      message.Reason
	deadAt    time.Duration
}

// window is a fault's time.
type window struct {
	kind     string
	from, to time.Duration
	page     string // empty: all
}

// world is a play.
type world struct {
	scene
	start time.Time
	top   queue.Topology
	base  *networktest.Broker
	store *rooms.Store
	api   *fakeapi.API
	hook  *webhook.Handler
	hlink *link
	sub   *submit.Handler
	log   bool // programs' logs are in the history

	script   *rand.Rand // of what people do
	work     sync.WaitGroup
	applying sync.Mutex

	mu        sync.Mutex
	alive     []*program
	programs  []*program // with those that ended
	alarm     chan struct{}
	refusing  map[string]int
	slow      map[string]time.Duration
	storeSlow time.Duration
	storeAway int
	hist      []entry
	texts     []*text
	clock     int
	fates     map[string]*fate
	order     map[string][]string // first acceptances by page/recipient/class
	windows   []*window
	pauses    []*window
	calls     []entry // accepted: queue is the page
	failures  []failure
}

// failure is a promise that was broken.
type failure struct{ kind, id, text string }

func (w *world) now() time.Duration { return time.Since(w.start) }

func (w *world) note(who, what, queue, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hist = append(w.hist, entry{w.now(), who, what, queue, id})
}

// fail notes that a promise is broken for a message, or without an id in general.
func (w *world) fail(kind, id, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(kind, id, format, args...)
}

func (w *world) failLocked(kind, id, format string, args ...any) {
	w.failures = append(w.failures, failure{kind, id, fmt.Sprintf(format, args...)})
}

func (w *world) alarmed() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alarm
}

func (w *world) refuses(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusing[name] > 0
}

// published notes a message that is on its queue.
func (w *world) published(l *link, m queue.Message) {
	what := "published"
	if m.Delay > 0 {
		what = "delayed " + m.Delay.String()
	}
	w.note(l.name, what, m.Queue, m.ID)
	if m.Queue != w.top.Dead() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d, err := message.DeathFromHeaders(m.Headers)
	f := w.fates[m.ID]
	if f == nil {
		f = &fate{}
		w.fates[m.ID] = f
	}
	f.dead, f.deadAt = d.Reason, w.now()
	if err != nil || d.Error == "" {
		f.dead = "no reason"
	}
	w.hist = append(w.hist, entry{w.now(), l.name, fmt.Sprintf("dead: %s %s %s %s", d.Reason, d.FirstCode, d.LastCode, d.Error), "", m.ID})
}

// publishing notes a copy that is on its way for the first time: it may arrive before its confirm.
func (w *world) publishing(l *link, m queue.Message) {
	if !strings.Contains(m.Queue, ".outbound.") || message.IsMarker(m.Headers) || !strings.HasPrefix(l.name, "core") && l.name != "submit" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fates[m.ID] == nil {
		page, _, _ := strings.Cut(m.ID, "/")
		w.fates[m.ID] = &fate{page: page, published: w.now(), place: len(w.fates)}
	}
}

// accepted notes that the platform has taken a message.
func (w *world) accepted(a fakeapi.Acceptance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	class := "text"
	if a.Type == "audio" || a.Type == "video" {
		class = "media"
	}
	w.calls = append(w.calls, entry{w.now(), "", "", a.Page, a.ID})
	for id := range strings.SplitSeq(a.ID, " ") {
		w.hist = append(w.hist, entry{w.now(), "api", "ACCEPTED", "", id})
		f := w.fates[id]
		if f == nil {
			f = &fate{page: a.Page}
			w.fates[id] = f
			w.failLocked("UNKNOWN", id, "accepted, and nobody has published it")
		}
		if f.times++; f.times > 1 {
			continue
		}
		f.first = w.now()
		key := a.Page + "/" + a.Recipient + "/" + class
		w.order[key] = append(w.order[key], id)
	}
}

// open makes a world without cores and dispatchers.
func open(s scene) (*world, error) {
	w := &world{
		scene: s, start: time.Now(), top: queue.Topology{Prefix: "s", Partitions: 4}, script: rand.New(rand.NewPCG(s.seed, 3)),
		refusing: make(map[string]int), slow: make(map[string]time.Duration), fates: make(map[string]*fate), order: make(map[string][]string),
	}
	slow := func(name string) time.Duration {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.slow[name]
	}
	var errs [5]error
	w.base, errs[0] = networktest.NewBroker(w.top, networktest.Options{Hop: 300 * time.Microsecond, Slow: slow, KeepsDead: s.keepsDead})
	w.store, errs[1] = rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:"})
	settings := fakeapi.DefaultSettings()
	settings.Text.PerSecond = s.limit
	settings.Text.Phase = fakeapi.Duration(w.script.Int64N(int64(time.Second)))
	w.api, errs[2] = fakeapi.New(fakeapi.Config{Seed: s.seed, Settings: &settings})
	w.hlink = &link{w: w, name: "hook"}
	w.hook, errs[3] = webhook.New(webhook.Config{Broker: w.hlink, Topology: w.top, AppSecret: []byte(secret), VerifyToken: "v"})
	w.sub, errs[4] = submit.New(submit.Config{Broker: &link{w: w, name: "submit"}})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	w.api.Observe(w.accepted)
	return w, nil
}

// logger puts a program's log into the history.
func (w *world) logger(name string) *slog.Logger {
	if !w.log {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(logWriter{w, name}, nil))
}

type logWriter struct {
	w    *world
	name string
}

func (l logWriter) Write(b []byte) (int, error) {
	l.w.note(l.name, "LOG "+strings.TrimSpace(string(b)), "", "")
	return len(b), nil
}

// begin starts a core or a dispatcher. Its settings go by its number.
func (w *world) begin(isDisp bool) {
	w.mu.Lock()
	n := len(w.programs)
	w.mu.Unlock()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+n)))
	p := &program{link: &link{w: w, name: fmt.Sprint("core", n)}, reg: prometheus.NewRegistry(), done: make(chan error, 1)}
	wire := w.core
	if isDisp {
		p.name = fmt.Sprint("disp", n)
		wire = w.dispatcher
	}
	run, after, err := wire(p, r)
	if err != nil {
		w.fail("WIRING", "", "%v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.mu.Lock()
	w.alive, w.programs = append(w.alive, p), append(w.programs, p)
	w.mu.Unlock()
	w.note(p.name, "START", "", "")
	go func() { // the play waits for done
		err := run(ctx)
		after()
		if !p.isDead() && (err != nil || ctx.Err() == nil) {
			w.fail("ENDED", "", "%s ended at %.3f by itself: %v", p.name, w.now().Seconds(), err)
		}
		w.note(p.name, "ENDED", "", "")
		p.done <- err
	}()
}

func (w *world) dispatcher(p *program, r *rand.Rand) (run func(context.Context) error, after func(), err error) {
	p.way = &way{l: p.link, rt: w.api.Transport()}
	send, err := sender.New(sender.Config{BaseURL: "http://fakeapi/v23.0", Tokens: w.api, Transport: p.way, MaxInFlight: 64, CallTimeout: 10 * time.Second, Registerer: p.reg})
	if err != nil {
		return nil, nil, err
	}
	limits := message.Limits{Text: 300, Media: 10, Recipient: w.recipient}
	var mu sync.Mutex
	p.disp, err = dispatch.New(dispatch.Config{
		Broker: p.link, Sender: send, Limits: func(string) message.Limits { return limits },
		Log: w.logger(p.name), Registerer: p.reg, Prefetch: 64, LanePrefetch: 512, MaxInFlight: 64, JoinTexts: w.joins,
		MaxAttempts: 8, MessageTTL: time.Hour, ShutdownTimeout: 20 * time.Second,
		Random: func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return r.Float64()
		},
	})
	return p.disp.Run, send.Close, err
}

func (w *world) core(p *program, r *rand.Rand) (run func(context.Context) error, after func(), err error) {
	c, err := core.New(core.Config{
		Broker: p.link, Store: mortal{w.store, p.link}, Registerer: p.reg, Log: w.logger(p.name),
		Workers: 2 + r.IntN(4), Prefetch: 64, FreshWithin: w.fresh,
	})
	if err != nil {
		return nil, nil, err
	}
	return c.Run, func() {}, nil
}

// mortal is a store that a dead core does not reach, and that may be slow or away.
type mortal struct {
	core.Store
	l *link
}

func (m mortal) reach(ctx context.Context) error {
	m.l.w.mu.Lock()
	slow, away := m.l.w.storeSlow, m.l.w.storeAway
	m.l.w.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	if away > 0 || m.l.isDead() {
		return errors.New("database away")
	}
	return nil
}

func (m mortal) Receive(ctx context.Context, ev rooms.Event) (rooms.Result, error) {
	if err := m.reach(ctx); err != nil {
		return rooms.Result{}, err
	}
	return m.Store.Receive(ctx, ev)
}

func (m mortal) Done(ctx context.Context, page, id string) error {
	if err := m.reach(ctx); err != nil {
		return err
	}
	return m.Store.Done(ctx, page, id)
}

func (w *world) take(p *program) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alive = slices.DeleteFunc(w.alive, func(o *program) bool { return o == p })
}

// living returns the cores, or the dispatchers, that run.
func (w *world) living(isDisp bool) (list []*program) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.alive {
		if (p.disp != nil) == isDisp {
			list = append(list, p)
		}
	}
	return list
}

// pagesChanged has dispatchers read pages' tokens again.
func (w *world) pagesChanged(pages ...string) {
	for _, p := range w.living(true) {
		p.disp.PagesChanged(pages)
	}
}

// give has an operator give an order.
func (w *world) give(o orders.Order) {
	o.Time = time.Now().UnixMilli()
	if o.Until != 0 {
		o.Until += o.Time
	}
	l := &link{w: w, name: "operator"}
	w.work.Go(func() {
		given := w.now()
		for orders.Give(context.Background(), l, o) != nil {
			time.Sleep(time.Second)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		switch o.Kind {
		case orders.Pause:
			x := &window{kind: "paused", from: w.now(), to: 1 << 62, page: o.Page}
			if o.Until != 0 {
				x.to = given + time.Duration(o.Until-o.Time)*time.Millisecond
			}
			w.pauses = append(w.pauses, x)
		case orders.Resume:
			for _, x := range w.pauses {
				if x.page == o.Page {
					x.to = min(x.to, given)
				}
			}
		}
	})
}
