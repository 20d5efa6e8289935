package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/rooms"
	"chatclub/internal/rooms/roomstest"
)

const (
	propCapacity = 3
	propIdle     = 10 * time.Hour
)

// world is a page on three cores, with the events and the messages that they must
// make.
type world struct {
	t       *rapid.T
	page    string
	cores   []*doomed
	broker  *memory.Broker
	out     queue.Subscription
	store   *rooms.Store
	model   *model
	now     *atomic.Int64 // the clock of all, Unix milliseconds
	made    int
	waiting []*told             // events on their way to a core
	history []*told             // all events
	want    map[string]string   // copies by id, with their text
	notices map[string]bool     // by id
	again   map[string]int      // by event, how often its copies may have been published again
	got     map[string][]string // published texts by id
}

// told is an event, which may be repeated.
type told struct {
	ev      message.Event
	applied bool // the model knows it
}

// TestRandomEvents checks random events of random users on three cores against a
// naive model. Events are repeated and change their order, and cores die between
// any two steps. The short run makes a fifth of the cases, as
// rapid does by itself, on PostgreSQL alone.
func TestRandomEvents(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { t.Helper(); return "sqlite:" + t.TempDir() + "/rooms.db" },
		"postgres": roomstest.DSN,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && name == "sqlite" {
				t.Skip("long: make test-long; the short run has PostgreSQL alone")
			}
			u := url(t)
			var pages atomic.Int64
			w := newWorld(t, u)
			rapid.Check(t, func(rt *rapid.T) { w.fresh(rt, fmt.Sprintf("page%d", pages.Add(1))).run() })
		})
	}
}

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	w := &world{broker: newBroker(t), now: new(atomic.Int64)}
	for range 3 {
		store, err := rooms.Open(rooms.Config{
			DatabaseURL: url, Capacity: propCapacity, Idle: propIdle, MaxConns: 1, Now: func() time.Time { return time.UnixMilli(w.now.Load()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		if err := store.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.store = store
		w.cores = append(w.cores, newDoomed(t, w.broker, store, func() time.Time { return time.UnixMilli(w.now.Load()) }))
	}
	var err error
	if w.out, err = w.broker.Consume(w.broker.Topology().Outbound(0), queue.ConsumeOptions{Prefetch: 100_000}); err != nil {
		t.Fatal(err)
	}
	return w
}

// fresh returns the world with a new page without events.
func (w *world) fresh(t *rapid.T, page string) *world {
	f := *w
	f.t, f.page, f.model = t, page, newModel(propCapacity, propIdle, w.now.Load)
	f.want, f.notices, f.again, f.got = map[string]string{}, map[string]bool{}, map[string]int{}, map[string][]string{}
	w.now.Store(1_800_000_000_000)
	return &f
}

func (w *world) run() {
	w.t.Repeat(map[string]func(*rapid.T){
		"say":     func(t *rapid.T) { w.some(t, w.say) },
		"deliver": func(t *rapid.T) { w.some(t, func(t *rapid.T) { w.deliver(t, true) }) },
		"repeat":  func(t *rapid.T) { w.repeat(t) },
		"ban":     func(t *rapid.T) { w.ban(t) },
		"":        func(t *rapid.T) { w.check(t) },
	})
	for len(w.waiting) > 0 {
		w.deliver(w.t, false)
	}
	w.settle()
}

// some calls do a few times, so that a run has a few hundred events.
func (w *world) some(t *rapid.T, do func(*rapid.T)) {
	for range rapid.IntRange(1, 12).Draw(t, "times") {
		do(t)
	}
}

// say makes an event, which is on its way to a core from then on.
func (w *world) say(t *rapid.T) {
	w.made++
	now := w.now.Add(rapid.Int64Range(0, 3*3600*1000).Draw(t, "later"))
	ev := message.Event{
		Kind: message.KindMessage, Page: w.page, ID: fmt.Sprint("m", w.made), Time: now,
		User: rapid.StringMatching(`[a-h]`).Draw(t, "user"),
	}
	names := []string{"Guest 1", "guest 2", "Guest 3", "Guest 4", "Ana", "ANA", "Bo"}
	what := rapid.SampledFrom([]string{
		"text", "text", "text", "text", "text", "start", "join", "code", "leave", "name", "block", "unblock", "mute",
		"gone", "closed", "failing", "resumed", "idle", "stopped", "blocked", "unblocked", "unblocked",
	}).Draw(t, "what")
	switch what {
	case "text":
		ev.Text = fmt.Sprint("text ", w.made)
	case "start":
		ev.Kind, ev.Payload = message.KindPostback, "GET_STARTED"
	case "join":
		ev.Text = "/join " + rapid.StringMatching(`[1-6]`).Draw(t, "room")
	case "code":
		ev.Text = "/join " + rapid.SampledFrom([]string{"jazz", "rock"}).Draw(t, "code")
	case "leave":
		ev.Text = "/leave"
	case "name":
		ev.Text = "/name " + rapid.SampledFrom(names).Draw(t, "name")
	case "block":
		ev.Text = "/block " + rapid.SampledFrom(names).Draw(t, "name")
	case "unblock":
		ev.Text = "/unblock " + rapid.SampledFrom(names).Draw(t, "name")
	case "mute":
		ev.Text = "/mute " + rapid.SampledFrom([]string{"1h", "10h", "off"}).Draw(t, "for")
	case "gone":
		ev.Kind, ev.Reason = message.KindFeedback, string(message.ReasonGone)
	case "closed":
		ev.Kind, ev.Reason = message.KindFeedback, string(message.ReasonWindowClosed)
	case "failing":
		ev.Kind, ev.Reason, ev.Until = message.KindFeedback, message.FeedbackFailing, now+240*1000
	case "resumed":
		ev.Kind, ev.Reason = message.KindFeedback, message.FeedbackResumed
	case "idle":
		ev.Kind = message.KindIdle
	case "stopped":
		ev.Kind, ev.Reason, ev.Until = message.KindFeedback, string(message.ReasonPageStopped), now+240*1000
	case "blocked", "unblocked":
		ev.Kind, ev.Action = message.KindPolicy, strings.TrimSuffix(what, "ed")
	}
	e := &told{ev: ev}
	w.waiting, w.history = append(w.waiting, e), append(w.history, e)
}

// repeat repeats an event of the past.
func (w *world) repeat(t *rapid.T) {
	if len(w.history) > 0 {
		w.waiting = append(w.waiting, rapid.SampledFrom(w.history).Draw(t, "event"))
	}
}

func (w *world) ban(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
		return
	}
	user := rapid.StringMatching(`[a-h]`).Draw(t, "user")
	err := w.store.Ban(context.Background(), w.page, user, time.Time{})
	if known := w.model.ban(user); known != (err == nil) {
		t.Fatalf("Ban(%s) = %v, known %v", user, err, known)
	}
}

// deliver gives one of the next events to a core, which may die over it.
func (w *world) deliver(t *rapid.T, mayCrash bool) {
	if len(w.waiting) == 0 {
		return
	}
	w.now.Add(1) // no two events at once, so that the last of a user's names is one
	i := 0
	core := w.cores[0]
	where := nowhere
	if mayCrash {
		i = rapid.IntRange(0, min(3, len(w.waiting)-1)).Draw(t, "reorder")
		core = rapid.SampledFrom(w.cores).Draw(t, "core")
		if rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
			where = crash(rapid.IntRange(int(beforeReceive), int(beforeAck)).Draw(t, "where"))
		}
	}
	e := w.waiting[i]
	w.waiting = slices.Delete(w.waiting, i, i+1)
	if !core.handle(e.ev, where) {
		w.waiting = append(w.waiting, e)
	}
	if where == beforeReceive && (e.ev.Kind == message.KindMessage || e.ev.Kind == message.KindPostback || e.ev.Kind == message.KindIdle) {
		return // it did not happen
	}
	if where == inPublish || where == beforeDone {
		w.again[e.ev.ID]++
	}
	// Feedback and policy are not recorded. A repetition happens again, which must
	// change nothing.
	if !e.applied {
		e.applied = true
		w.expect(e.ev, w.model.apply(e.ev))
	} else if e.ev.Kind == message.KindFeedback || e.ev.Kind == message.KindPolicy {
		w.model.apply(e.ev)
	}
}

func (w *world) expect(ev message.Event, o outcome) {
	if o.notice {
		w.notices[message.CopyID(ev.Page, ev.ID, ev.User, 0)] = true
	}
	for to, text := range o.copies {
		w.want[message.CopyID(ev.Page, ev.ID, to, 0)] = text
	}
	for to, text := range o.second {
		w.want[message.CopyID(ev.Page, ev.ID, to, 1)] = text
	}
}
