package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/partitions"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/sender"
)

// sleep lets time pass, and everything that is due happen before it returns, so
// that nothing of it is going on while the test looks. What the test looked at before
// was looked at before all that, which the race detector learns by the lock.
func (r *rig) sleep(d time.Duration) {
	r.with(func() {})
	time.Sleep(d)
	synctest.Wait()
}

// with changes what the platform's functions look at.
func (r *rig) with(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// half is a random number that is always the same.
func half() float64 { return 0.5 }

// rig is dispatchers on one broker, and the platform that they call, in the
// test's bubble.
type rig struct {
	t *testing.T
	*platform
	broker   *memory.Broker
	top      queue.Topology
	replicas []*replica

	stands    bool     // the test has messages stand that the watch finds
	published []string // ids, in order
	born      map[string]time.Time
}

// replica is one dispatcher.
type replica struct {
	*Dispatcher
	reg    *prometheus.Registry
	link   *link
	cancel context.CancelFunc
	done   chan error
	ended  bool
}

// inBubble runs a test with n replicas that have had the time to take their
// partitions. Afterwards they are stopped, and their counters must add up.
func inBubble(t *testing.T, n int, change func(*Config), test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start(n, change)
		r.sleep(partitions.TrialTime + time.Second) // a new owner's first second is over
		test(t, r)
		r.end()
	})
}

func newRig(t *testing.T) *rig {
	t.Helper()
	b := memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 16})
	return &rig{t: t, platform: newPlatform(), broker: b, top: b.Topology(), born: make(map[string]time.Time)}
}

// start starts n replicas. change adjusts their configuration.
func (r *rig) start(n int, change func(*Config)) {
	r.t.Helper()
	for range n {
		p := &replica{reg: prometheus.NewRegistry(), link: &link{Broker: r.broker}, done: make(chan error, 1)}
		cfg := Config{
			Broker: p.link, Sender: client{r.platform, len(r.replicas)}, Limits: func(string) message.Limits { return message.Limits{Text: 300, Media: 10} },
			Log: slog.New(slog.DiscardHandler), Registerer: p.reg,
			MaxInFlight: 512, MaxAttempts: 8, MessageTTL: time.Hour, ShutdownTimeout: 20 * time.Second,
		}
		if change != nil {
			change(&cfg)
		}
		var err error
		if p.Dispatcher, err = New(cfg); err != nil {
			r.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		p.cancel = cancel
		r.replicas = append(r.replicas, p)
		go func() { p.done <- p.Run(ctx) }()
	}
}

// stop ends a replica as a signal does, and checks its counters.
func (r *rig) stop(p *replica) {
	r.t.Helper()
	if p.ended {
		return
	}
	p.ended = true
	p.cancel()
	if err := <-p.done; err != nil && !p.link.isDead() {
		r.t.Errorf("Run() = %v, want nil", err)
	}
	r.checkSum(p)
}

// checkSum: every message that was taken ended in one way, or is held.
func (r *rig) checkSum(p *replica) {
	r.t.Helper()
	m := p.metrics
	parts := map[string]float64{
		"sent": testutil.ToFloat64(m.sent), "overflowed": testutil.ToFloat64(m.overflowed), "delayed": testutil.ToFloat64(m.delayed),
		"returned": testutil.ToFloat64(m.returned), "stale": testutil.ToFloat64(m.stale), "held": testutil.ToFloat64(m.held),
		"strays": testutil.ToFloat64(m.strays), "passed": testutil.ToFloat64(m.passed), "repeats": testutil.ToFloat64(m.repeats),
	}
	for _, c := range m.dead {
		parts["dead"] += testutil.ToFloat64(c)
	}
	sum := 0.0
	for _, n := range parts {
		sum += n
	}
	if n := testutil.ToFloat64(m.unexplained); n > 0 != r.stands {
		r.t.Errorf("%v times messages waited without a reason that holds, want any: %v", n, r.stands)
	}
	if taken := testutil.ToFloat64(m.taken); sum != taken {
		r.t.Errorf("taken %v, but %v add up to %v", taken, parts, sum)
	}
}

// end stops all replicas.
func (r *rig) end() {
	r.t.Helper()
	for _, p := range r.replicas {
		p.cancel()
	}
	for _, p := range r.replicas {
		r.stop(p)
	}
}

// only is the one replica.
func (r *rig) only() *replica { return r.replicas[0] }

// know has the owner of a page's partition know the lanes: the first message after a
// while waits for that, with those behind it. The test knows nothing of the message.
func (r *rig) know(page string) {
	r.t.Helper()
	r.text(page, "before")
	r.sleep(100 * time.Millisecond)
	r.with(func() { r.published, r.order, r.calls = nil, nil, nil })
}

// copyOf makes a message to a recipient, which is the next one.
func (r *rig) copyOf(page string, c message.Class, to string) message.Outbound {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := message.Outbound{
		ID: fmt.Sprintf("%s/%s#%d", page, to, len(r.published)+1), Page: page, To: to, Class: c, Time: time.Now().UnixMilli(),
	}
	if c == message.ClassText {
		o.Text, o.Joins = "hello", true
	} else {
		o.Attachment = &message.Attachment{Type: "audio", URL: "https://x/y"}
	}
	r.published = append(r.published, o.ID)
	r.born[o.ID] = time.Now()
	return o
}

// text publishes a text to each of the recipients, and returns the ids.
func (r *rig) text(page string, to ...string) []string {
	r.t.Helper()
	var list []message.Outbound
	for _, p := range to {
		list = append(list, r.copyOf(page, message.ClassText, p))
	}
	return r.publish(list...)
}

// answerTo publishes an answer to each of the recipients, and returns the ids.
func (r *rig) answerTo(page string, to ...string) []string {
	r.t.Helper()
	var list []message.Outbound
	for _, p := range to {
		o := r.copyOf(page, message.ClassText, p)
		o.Answer, o.Joins = true, false
		list = append(list, o)
	}
	return r.publish(list...)
}

// media publishes a voice message to each of the recipients.
func (r *rig) media(page string, to ...string) []string {
	r.t.Helper()
	var list []message.Outbound
	for _, p := range to {
		list = append(list, r.copyOf(page, message.ClassMedia, p))
	}
	return r.publish(list...)
}

func (r *rig) publish(list ...message.Outbound) (ids []string) {
	r.t.Helper()
	for _, o := range list {
		body, err := o.Encode()
		if err != nil {
			r.t.Fatal(err)
		}
		ids = append(ids, o.ID)
		if err := r.broker.Publish(context.Background(), queue.Message{Queue: r.top.OutboundOf(o.Page), ID: o.ID, Body: body}); err != nil {
			r.t.Fatal(err)
		}
	}
	return ids
}

// every calls f every d, as often as it fits in total.
func every(d, total time.Duration, f func(i int)) {
	for i := 0; time.Duration(i)*d < total; i++ {
		f(i)
		time.Sleep(d)
	}
}

// guests is n people.
func guests(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}

// peers are n pages of the same partition.
func (r *rig) peers(n int) (pages []string) {
	for i := 0; len(pages) < n; i++ {
		if page := fmt.Sprint("page", i); r.top.PartitionOf(page) == r.top.PartitionOf("page0") {
			pages = append(pages, page)
		}
	}
	return pages
}

// fails has every call of a page end so, and no other.
func (r *rig) fails(page string, o sender.Outcome) {
	r.script(func(m message.Outbound, _ int) sender.Result {
		if m.Page == page {
			return fail(o)
		}
		return sender.Result{}
	})
}

// sharing returns six pages of one partition, of which 1,500 messages each have come, and
// those of them that share a lane.
func (r *rig) sharing() (pages, share []string) {
	r.t.Helper()
	r.limits = func(string, message.Class) int { return 100 }
	pages = r.peers(6)
	for _, page := range pages {
		r.text(page, guests("g", 1500)...)
	}
	r.sleep(2 * time.Second)
	r.only().inspect(func(e *engine) {
		for _, c := range e.claims.all {
			for _, k := range c.lanes {
				if len(k.lines) > 1 {
					share = nil
					for _, l := range k.lines {
						share = append(share, l.key.Page)
					}
				}
			}
		}
	})
	if len(share) < 2 {
		r.t.Fatal("no two pages share a lane: nothing is tested")
	}
	return pages, share
}

// dead takes the dead letters, by their ids. Each has its page, its recipient and
// its time, which are checked and left out.
func (r *rig) dead() map[string]message.Death {
	r.t.Helper()
	out := make(map[string]message.Death)
	for _, m := range memorytest.Drain(r.t, r.broker, r.top.Dead()) {
		d, err := message.DeathFromHeaders(m.Headers)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, twice := out[m.ID]; twice {
			r.t.Errorf("%s is dead twice", m.ID)
		}
		if age := time.Since(d.Time); age < 0 || age > 24*time.Hour {
			r.t.Errorf("%s is dead since %v", m.ID, d.Time)
		}
		o, _ := message.DecodeOutbound(m.Body) // empty, as those headers, where it is undecodable
		if d.Page != o.Page || d.Recipient != o.To {
			r.t.Errorf("%s is dead with page %q and recipient %q, want %q and %q", m.ID, d.Page, d.Recipient, o.Page, o.To)
		}
		if d.Error == "" {
			r.t.Errorf("%s is dead, and its letter does not say why", m.ID)
		}
		d.Time, d.Page, d.Recipient, d.Error = time.Time{}, "", "", ""
		out[m.ID] = d
	}
	return out
}

// told takes the events that core was told, but for what waits.
func (r *rig) told() (events []message.Event) {
	r.t.Helper()
	return slices.DeleteFunc(r.toldAll(), func(e message.Event) bool { return e.Reason == message.FeedbackWaiting })
}

// toldAll takes the events that core was told.
func (r *rig) toldAll() (events []message.Event) {
	r.t.Helper()
	var list []queue.Message
	for _, name := range r.top.Inbounds() {
		list = append(list, memorytest.Drain(r.t, r.broker, name)...)
	}
	for _, m := range list {
		e, err := message.DecodeEvent(m.Body)
		if err != nil {
			r.t.Fatal(err)
		}
		if m.ID != e.ID || len(m.ID) > queue.MaxName {
			r.t.Errorf("event %q travels under the id %q", e.ID, m.ID)
		}
		events = append(events, e)
	}
	return events
}

// lanesOf are the lanes that the owner of a page has for it.
func (r *rig) lanesOf(page string) (names []string) {
	for _, p := range r.replicas {
		if !p.ended {
			found, _ := p.messages(context.Background(), wanted{id: page + "/"}) // one that has ended has none
			names = append(names, found.Lanes...)
		}
	}
	return names
}

// checkEmpty: nothing waits on any partition or lane.
func (r *rig) checkEmpty() {
	r.t.Helper()
	for i := range r.top.Partitions {
		for _, name := range append(r.top.LanesOf(i), r.top.Outbound(i)) {
			if info, err := r.broker.Inspect(context.Background(), name); err != nil || info.Ready > 0 {
				r.t.Errorf("%d messages are left on %s, %v", info.Ready, name, err)
			}
		}
	}
}

// checkSentOnce: all that was published was accepted once, in order.
func (r *rig) checkSentOnce() {
	r.t.Helper()
	r.checkSent(1, 1)
}

// checkSent: all that was published was accepted so many times, in order.
func (r *rig) checkSent(least, most int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	bad := 0
	for _, id := range r.published {
		if n := r.accepted[id]; n < least || n > most {
			if bad++; bad < 5 {
				r.t.Errorf("%s was accepted %d times, want %d to %d", id, n, least, most)
			}
		}
	}
	if bad > 0 || len(r.inversions) > 0 {
		r.t.Errorf("%d of %d messages were not accepted %d to %d times; %d overtaken: %q", bad, len(r.published), least, most,
			len(r.inversions), r.inversions[:min(3, len(r.inversions))])
	}
}

// doubled returns how often messages were accepted again. All of them have arrived.
func (r *rig) doubled() (n int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.published {
		if r.accepted[id] == 0 {
			r.t.Errorf("%s did not arrive", id)
		}
		n += max(0, r.accepted[id]-1)
	}
	return n
}

// waits returns the waiting times of a page's messages until they were accepted,
// the shortest first.
func (r *rig) waits(page string) (waits []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.times {
		if len(id) > len(page) && id[:len(page)+1] == page+"/" {
			waits = append(waits, at.Sub(r.born[id]))
		}
	}
	slices.Sort(waits)
	return waits
}

// quantile of sorted durations.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// stepBack has a replica go behind all others for a rest, or until a call is
// answered.
func (p *replica) stepBack() {
	p.inspect(func(e *engine) {
		e.standing.trial, e.standing.until = true, e.Now().Add(restTime)
		e.claims.renewAll("silent")
	})
}

// inspect runs f in a replica's engine.
func (p *replica) inspect(f func(e *engine)) {
	done := make(chan struct{})
	p.posts <- func(e *engine) { f(e); close(done) }
	<-done
}

// owner finds the replica that was delivered messages of a page, -1: none.
func (r *rig) owner(page string) int {
	return r.find(page, func(p *partition) bool { return !p.claim.since.IsZero() })
}

// find finds the replica whose subscription of a page's partition matches, -1: none.
func (r *rig) find(page string, match func(*partition) bool) (who int) {
	who = -1
	for i, replica := range r.replicas {
		if replica.ended {
			continue
		}
		replica.inspect(func(e *engine) {
			if p := e.claims.partitions[r.top.PartitionOf(page)]; p.claim != nil && match(p) {
				who = i
			}
		})
	}
	return who
}

// link is a replica's connection to the broker. It can die, as the process does:
// what the replica holds goes back, and nothing that it does has an effect.
type link struct {
	*memory.Broker

	mu   sync.Mutex
	dead bool
	subs []queue.Subscription
	// dies is asked before and after what changes something on the broker, with
	// what that is; true: the process dies at this point.
	dies func(op, queue string) bool
	// refuse has an error for what is asked of a queue and does not happen.
	refuse func(op, queue string) error
	// hangs reports whether a queue takes nothing and says nothing.
	hangs func(queue string) bool
	// alarm is set while the broker takes nothing of anybody, and says so.
	alarm bool
	// mute reports whether a subscription of a queue is delivered nothing.
	mute func(queue string) bool
}

// with changes what a link does.
func (l *link) with(change func(l *link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// refused returns the error of an operation on a queue, nil if it happens.
func (l *link) refused(op, name string) (err error) {
	l.with(func(*link) {
		if l.refuse != nil {
			err = l.refuse(op, name)
		}
	})
	return err
}

// ask dies if that is to happen now.
func (l *link) ask(op, name string) {
	var dies func(op, queue string) bool
	l.with(func(*link) { dies = l.dies })
	if dies != nil && dies(op, name) {
		l.die()
	}
}

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// die ends the process, as far as the broker can see.
func (l *link) die() {
	l.mu.Lock()
	l.dead = true
	subs := l.subs
	l.subs = nil
	l.mu.Unlock()
	for _, s := range subs {
		memorytest.Lose(s)
	}
}

// do does something that changes the broker.
func (l *link) do(op, name string, f func() error) error {
	l.ask(op, name)
	if l.isDead() {
		return queue.ErrUnavailable
	}
	err := f()
	l.ask(op, name)
	if l.isDead() {
		return queue.ErrUnavailable
	}
	return err
}

func (l *link) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := queue.ValidateAll(l.Topology(), msgs); err != nil {
		return err
	}
	errs := make([]error, len(msgs))
	for i, m := range msgs {
		op := "publish"
		if m.Delay > 0 {
			op = "delay" // it goes to a retry queue
		}
		if errs[i] = l.refused(op, m.Queue); errs[i] != nil {
			continue
		}
		hangs := false
		l.with(func(*link) { hangs = l.alarm || l.hangs != nil && l.hangs(m.Queue) })
		if hangs {
			<-ctx.Done()
			errs[i] = queue.ErrUnavailable
			continue
		}
		if message.IsMarker(m.Headers) {
			op = "marker"
		}
		errs[i] = l.do(op, m.Queue, func() error { return l.Broker.Publish(ctx, m) })
	}
	return queue.NewPublishError(errs)
}

// Ready implements queue.Broker.
func (l *link) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alarm {
		return errors.New("alarm")
	}
	return l.Broker.Ready()
}

func (l *link) Inspect(ctx context.Context, name string) (queue.Info, error) {
	if l.isDead() {
		return queue.Info{}, queue.ErrUnavailable
	}
	if err := l.refused("inspect", name); err != nil {
		return queue.Info{}, err
	}
	return l.Broker.Inspect(ctx, name)
}

func (l *link) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, queue.ErrUnavailable
	}
	s, err := l.Broker.Consume(name, opts)
	if err != nil {
		return nil, err
	}
	l.subs = append(l.subs, s)
	if l.mute != nil && l.mute(name) {
		muted := mutedSubscription{s, make(chan *queue.Delivery), new(sync.Once)}
		return muted, s.Close()
	}
	return s, nil
}

// mutedSubscription is delivered nothing.
type mutedSubscription struct {
	queue.Subscription
	out  chan *queue.Delivery
	once *sync.Once
}

func (s mutedSubscription) Deliveries() <-chan *queue.Delivery { return s.out }

func (s mutedSubscription) Close() error {
	s.once.Do(func() { close(s.out) })
	return nil
}
