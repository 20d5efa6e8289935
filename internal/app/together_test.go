package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/core"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/rooms"
	"chatclub/internal/sender"
)

// together is a core and dispatchers on one broker in a test's bubble. The platform
// answers after Messenger's own latency.
type together struct {
	t           *testing.T
	broker      *memory.Broker
	dispatchers []*dispatch.Dispatcher
	book        *orders.Book
	events      int

	mu       sync.Mutex
	random   *rand.Rand
	answer   func(o message.Outbound) sender.Result // without an outcome: sent
	takes    func(o message.Outbound) time.Duration // 0: Messenger's latency
	accepted map[string]int
	waits    map[string]time.Duration // of those that were accepted, by the copy's id
	order    []message.Outbound       // that were accepted
}

// Reach implements dispatch.Caller.
func (*together) Ask(context.Context, string) sender.Result {
	return sender.Result{Outcome: sender.Sent}
}

func (*together) Reach(context.Context) error { return nil }

// Send implements dispatch.Caller.
func (g *together) Send(_ context.Context, o message.Outbound) sender.Result {
	g.mu.Lock()
	d := time.Duration(650 * math.Exp(0.35*g.random.NormFloat64()) * float64(time.Millisecond)) // mean 0.7 s, p99 1.5 s
	if g.takes != nil && g.takes(o) > 0 {
		d = g.takes(o)
	}
	g.mu.Unlock()
	time.Sleep(d / 2)
	g.mu.Lock()
	var r sender.Result
	if g.answer != nil {
		r = g.answer(o)
	}
	if r.Outcome == 0 {
		g.order = append(g.order, o)
		r = sender.Result{Outcome: sender.Sent, Status: 200, MessageID: "m"}
		for id := range strings.SplitSeq(o.ID, " ") {
			g.accepted[id]++
			g.waits[id] = time.Since(time.UnixMilli(o.Time)) + d - d/2
		}
	}
	g.mu.Unlock()
	time.Sleep(d - d/2)
	r.Latency = d
	return r
}

// inTogether runs a test with core and two dispatchers, and rooms of so many members
// on pages of these names.
func inTogether(t *testing.T, members map[string]int, test func(g *together)) {
	t.Helper()
	inTogetherWith(t, togetherConfig{}, members, test)
}

// togetherConfig is how core and the dispatchers are configured beside their defaults.
type togetherConfig struct {
	fresh  time.Duration             // core's FreshWithin
	join   int                       // the dispatchers' JoinTexts
	share  int                       // core's FloodShare; 0: none
	limits map[string]message.Limits // that pages have of their own, in the pages file
}

// of returns the limits of a page for its dispatcher.
func (c togetherConfig) of(page string) message.Limits { return c.limits[page].Or(togetherLimits) }

// togetherLimits are those of pages without their own.
var togetherLimits = message.Limits{Text: 300, Media: 10}

// inTogetherWith does it with another configuration.
func inTogetherWith(t *testing.T, cfg togetherConfig, members map[string]int, test func(g *together)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &together{
			t: t, broker: memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 16}), random: rand.New(rand.NewPCG(1, 2)), book: orders.NewBook(),
			accepted: make(map[string]int), waits: make(map[string]time.Duration),
		}
		store, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:", FloodShare: cfg.share})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		log := slog.New(slog.DiscardHandler)
		c, err := core.New(core.Config{
			Broker: g.broker, Store: store, Registerer: prometheus.NewRegistry(), Log: log, FreshWithin: cfg.fresh,
			Limits: core.NewLimits(togetherLimits, g.book.Limits), NoShare: cfg.share == 0,
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Errorf("core: %v", err)
			}
		})
		running.Go(func() {
			if err := g.book.Follow(ctx, g.broker, log, func(orders.Order) {}); err != nil {
				t.Errorf("orders: %v", err)
			}
		})
		for range 2 {
			d, err := dispatch.New(dispatch.Config{
				Broker: g.broker, Sender: g, Limits: cfg.of, Log: log, Registerer: prometheus.NewRegistry(),
				MaxInFlight: 4096, MaxAttempts: 8, MessageTTL: time.Hour, ShutdownTimeout: 20 * time.Second, Random: func() float64 { return 0.5 }, JoinTexts: cfg.join,
			})
			if err != nil {
				t.Fatal(err)
			}
			g.dispatchers = append(g.dispatchers, d)
			running.Go(func() {
				if err := d.Run(ctx); err != nil {
					t.Errorf("dispatcher: %v", err)
				}
			})
		}
		for page, n := range members {
			for i := range n {
				g.write(page, i, "hello")
			}
		}
		time.Sleep(2 * time.Minute)
		test(g)
		cancel()
		running.Wait()
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
}

// write has a member of a page write a text, or send a voice message if that is
// empty. It returns the event's id.
func (g *together) write(page string, member int, text string) string {
	g.t.Helper()
	g.events++
	ev := message.Event{
		Kind: message.KindMessage, Page: page, ID: fmt.Sprint("m", g.events), User: fmt.Sprint(page, "-", member),
		Time: time.Now().UnixMilli(), Text: text,
	}
	if text == "" {
		ev.Attachments = []message.Attachment{{Type: "audio", URL: "https://x/voice"}}
	}
	body, err := ev.Encode()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := g.broker.Publish(context.Background(), queue.Message{Queue: g.broker.Topology().InboundOf(ev.Page), ID: ev.ID, Body: body}); err != nil {
		g.t.Fatal(err)
	}
	return page + "/" + ev.ID + "/"
}

// with changes the platform's behaviour.
func (g *together) with(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// reached returns how many people got a copy of an event.
func (g *together) reached(event string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.accepted {
		if strings.HasPrefix(id, event) {
			n++
		}
	}
	return n
}

// dead takes the dead letters, and counts them by reason.
func (g *together) dead() map[message.Reason]int {
	g.t.Helper()
	n := make(map[message.Reason]int)
	for _, m := range memorytest.Drain(g.t, g.broker, g.broker.Topology().Dead()) {
		d, err := message.DeathFromHeaders(m.Headers)
		if err != nil {
			g.t.Fatal(err)
		}
		n[d.Reason]++
	}
	return n
}

var refusedToken = sender.Result{Outcome: sender.PageStopped, Status: 400, Code: 190, Err: errors.New("refused")}

// TestRefusedTokenTogether: a token is refused for longer than messages wait, while a room
// is lively. Core is told, and learns the end: within 36 minutes of the right token,
// which nobody announces, everybody is sent to again.
func TestRefusedTokenTogether(t *testing.T) {
	t.Parallel()
	inTogether(t, map[string]int{"p": 20}, func(g *together) {
		g.with(func() { g.answer = func(message.Outbound) sender.Result { return refusedToken } })
		writing := func(d time.Duration) (events []string) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(3 * time.Second) {
				events = append(events, g.write("p", len(events)%20, "text"))
			}
			return events
		}
		writing(20 * time.Minute)
		g.with(func() { g.answer = nil })
		writing(36 * time.Minute) // the next probe
		after := writing(10 * time.Second)
		time.Sleep(20 * time.Second)
		for _, ev := range after {
			if n := g.reached(ev); n != 19 {
				t.Fatalf("%s reached %d of 19", ev, n)
			}
		}
		if dead := g.dead(); dead[message.ReasonPageStopped] == 0 || len(dead) > 1 {
			t.Errorf("dead = %v, want as of a stopped page alone", dead)
		}
	})
}

// TestLivelyRoomBesideTrouble: a full room in which an event happens each second,
// beside a page whose token is refused, a voice message that Messenger cannot fetch,
// or a member who is throttled. Nobody else waits longer for that.
func TestLivelyRoomBesideTrouble(t *testing.T) {
	t.Parallel()
	const length = 5 * time.Minute
	var calm time.Duration
	for _, trouble := range []string{"none", "a refused token", "a voice message", "a throttled person"} {
		t.Run(trouble, func(t *testing.T) {
			inTogether(t, map[string]int{"p": 100, "q": 20}, func(g *together) {
				began := time.Now()
				between := func(from, to time.Duration) bool {
					d := time.Since(began)
					return d >= from && d < to
				}
				g.with(func() {
					g.answer = func(o message.Outbound) sender.Result {
						switch {
						case trouble == "a refused token" && o.Page == "q" && between(length/6, length/3):
							return refusedToken
						case trouble == "a voice message" && o.Class == message.ClassMedia:
							return sender.Result{Outcome: sender.Transient, Err: context.DeadlineExceeded}
						case trouble == "a throttled person" && o.To == "p-7" && between(length/6, length/3):
							return sender.Result{Outcome: sender.RecipientThrottled, Status: 400, Code: 613, Subcode: 2018338}
						}
						return sender.Result{}
					}
					g.takes = func(o message.Outbound) time.Duration {
						if trouble == "a voice message" && o.Class == message.ClassMedia {
							return 10 * time.Second
						}
						return 0
					}
				})
				var events []string
				for i := range int(length / time.Second) {
					events = append(events, g.write("p", i%100, "text"))
					g.write("q", i%20, "text")
					if i == 60 && trouble == "a voice message" {
						g.write("p", 3, "")
					}
					time.Sleep(time.Second)
				}
				time.Sleep(5 * time.Minute)
				var waits []time.Duration
				g.with(func() {
					for id, d := range g.waits {
						page, rest, _ := strings.Cut(id, "/")
						event, to, _ := strings.Cut(rest, "/")
						if page == "p" && slices.Contains(events, page+"/"+event+"/") && (to != "p-7" || trouble != "a throttled person") {
							waits = append(waits, d)
						}
					}
				})
				slices.Sort(waits)
				want := len(events) * 99
				if trouble == "a throttled person" {
					want -= len(events) - (len(events)+92)/100 // but for what p-7 wrote
				}
				if len(waits) != want {
					t.Errorf("%d copies arrived, want %d", len(waits), want)
				}
				p99 := waits[len(waits)*99/100]
				t.Logf("p50 %v, p99 %v, most %v", waits[len(waits)/2], p99, waits[len(waits)-1])
				if trouble == "none" {
					calm = p99
				}
				if float64(p99) > 1.2*float64(calm) {
					t.Errorf("p99 = %v, want at most 1.2 times that without trouble, %v", p99, calm)
				}
				dead := g.dead()
				delete(dead, message.ReasonExhausted) // the voice message, which cannot be sent
				if len(dead) > 0 {
					t.Errorf("dead = %v, want none that could be sent", dead)
				}
			})
		})
	}
}
