package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
)

// fault is one thing that fails for a time. All of a play are drawn before it, so that a
// failure can be played again without some of them.
type fault struct {
	number    int
	at, lasts time.Duration
	kind      string
	page      string
	person    string
	which     int           // of several programs or queues: the remainder counts
	chance    float64       // from 0 to 1; its meaning is the kind's
	noticed   time.Duration // after which the broker sees that a connection is lost
	isLost    bool          // what is on its way is lost at the end
}

func (f fault) String() string {
	return fmt.Sprintf("%2d: %8.3f %-16s %9s page %s which %d chance %.2f noticed %v lost %v",
		f.number, f.at.Seconds(), f.kind, f.lasts, f.page, f.which, f.chance, f.noticed, f.isLost)
}

// kind is a kind of fault.
type kind struct {
	name  string
	ofOne bool    // page: others notice nothing
	times float64 // how much longer than others it lasts; 0: it has no end
	// begin has it happen, and returns what ends it; nil where nothing does.
	begin func(w *world, f fault) (end func())
}

// kinds has all kinds of faults. To add one, add a row, and its name to those in check_test.go
// that it excuses.
func kinds() []kind {
	all, one := false, true
	return []kind{
		{"dispStart", all, 0, func(w *world, _ fault) func() { w.add(true); return nil }},
		{"coreStart", all, 0, func(w *world, _ fault) func() { w.add(false); return nil }},
		{"dispStop", all, 0, ends(true, false)},
		{"coreStop", all, 0, ends(false, false)},
		{"dispKill", all, 0, ends(true, true)},
		{"coreKill", all, 0, ends(false, true)},
		{"dispCut", all, .25, cuts(true)},
		{"coreCut", all, .25, cuts(false)},
		{"dispSilent", all, 1, silences(true, false)},
		{"coreSilent", all, 1, silences(false, false)},
		{"dispFreeze", all, 1, silences(true, true)},
		{"dispHang", all, 1, func(w *world, f fault) func() {
			return ofWay(w, f, func(y *way) { y.hang(true) }, func(y *way) { y.hang(false) })
		}},
		{"dispSlow", all, 1, func(w *world, f fault) func() {
			return ofWay(w, f, func(y *way) { y.slow.Store(4) }, func(y *way) { y.slow.Store(0) })
		}},
		{"hookCut", all, .25, func(w *world, f fault) func() { w.hlink.cut(f.noticed, false); return w.hlink.heal }},
		{"hookSilent", all, 1, func(w *world, _ fault) func() { w.hlink.silence(); return w.hlink.heal }},
		{"brokerSilent", all, .5, func(w *world, _ fault) func() { return w.wholeBroker(false) }},
		{"brokerRestart", all, .5, func(w *world, _ fault) func() { return w.wholeBroker(true) }},
		{"alarm", all, 1, func(w *world, _ fault) func() { return w.raiseAlarm() }},
		{"refuses", all, 1, func(w *world, f fault) func() {
			q := w.someQueue(f)
			return w.both(func(on int) { w.refusing[q] += on })
		}},
		{"slowQueue", all, 1, func(w *world, f fault) func() {
			q, d := w.someQueue(f), time.Duration(20+f.chance*1200)*time.Millisecond // a dispatcher waits 3 s for orders
			if f.isLost {
				q = w.top.Orders()
			}
			return w.both(func(on int) { w.slow[q] += time.Duration(on) * d })
		}},
		{"storeSlow", all, .5, func(w *world, _ fault) func() {
			return w.both(func(on int) { w.storeSlow += time.Duration(on) * time.Second })
		}},
		{"storeAway", all, .5, func(w *world, _ fault) func() { return w.both(func(on int) { w.storeAway += on }) }},
		{"apiSilent", all, 1, platform(func(f *fakeapi.Faults, _, on float64) { f.Timeout = on })},
		{"api500", all, 1, platform(func(f *fakeapi.Faults, chance, on float64) { f.ServerError = on * (.2 + .8*chance) })},
		{"apiReset", all, 1, platform(func(f *fakeapi.Faults, _, on float64) { f.ResetBefore = on * .3 })},
		{"apiAmbiguous", all, .25, platform(func(f *fakeapi.Faults, _, on float64) { f.ResetAfter, f.SentYet = on*.1, on*.1 })},
		{"apiSlow", all, 1, func(w *world, _ fault) func() {
			w.settings(func(s *fakeapi.Settings) { _ = s.Latency.UnmarshalText([]byte("lognormal:3s,8s")) })
			return func() { w.settings(func(s *fakeapi.Settings) { s.Latency = fakeapi.RealLatency() }) }
		}},
		{"page613", one, 1, injects(func(fault) fakeapi.Inject { return fakeapi.Inject{Code: "613"} })},
		{"page500", one, 1, injects(func(fault) fakeapi.Inject { return fakeapi.Inject{Code: "2"} })},
		{"pageHangs", one, 1, injects(func(fault) fakeapi.Inject { return fakeapi.Inject{Hang: fakeapi.Duration(time.Minute)} })},
		{"personFails", one, 1, injects(func(f fault) fakeapi.Inject { return fakeapi.Inject{Code: "2", Recipient: f.person} })},
		{"personThrottled", one, 1, injects(func(f fault) fakeapi.Inject {
			return fakeapi.Inject{Code: "613/2018338", Recipient: f.person}
		})},
		{"token", one, 4, pageIs(fakeapi.Revoked)},
		{"restricted", one, 4, pageIs(fakeapi.Restricted)},
		{"limit", one, 0, func(w *world, f fault) func() {
			w.ofPage(f.page, func(p *fakeapi.PageSettings) { p.Text = 3 + int(60*f.chance) })
			return nil
		}},
		{"orderLimit", one, 0, func(w *world, f fault) func() {
			w.give(orders.Order{Kind: orders.Limit, Page: f.page, Limits: message.Limits{Text: 2 + 60*f.chance}})
			return nil
		}},
		{"orderPause", one, 1, func(w *world, f fault) func() {
			o := orders.Order{Kind: orders.Pause, Page: f.page}
			if f.isLost {
				o.Until = max(1000, f.lasts.Milliseconds())
			}
			w.give(o)
			return func() { w.give(orders.Order{Kind: orders.Resume, Page: f.page}) }
		}},
	}
}

// draw draws the faults of a play. only has the names of the kinds; none: all.
func draw(r *rand.Rand, s scene, only string) (list []fault) {
	all := kinds()
	if only != "" {
		all = slices.DeleteFunc(all, func(k kind) bool { return !slices.Contains(strings.Split(only, ","), k.name) })
	}
	for at := calmBefore + time.Duration(r.IntN(20_000))*time.Millisecond; at < calmBefore+faultTime; at += time.Duration(r.ExpFloat64() * float64(12*time.Second)) {
		k := all[r.IntN(len(all))]
		d := time.Duration(1+r.IntN(40_000)) * time.Millisecond
		if r.IntN(2) == 0 {
			d /= 8
		}
		f := fault{
			number: len(list), at: at, kind: k.name, which: r.IntN(1000), chance: r.Float64(), isLost: r.IntN(3) == 0,
			lasts: time.Duration(float64(d) * k.times).Round(time.Millisecond),
		}
		if r.IntN(2) == 0 {
			f.noticed = time.Duration(r.IntN(10_000)) * time.Millisecond
		}
		page := s.pages[r.IntN(len(s.pages))]
		f.person = s.people[page][r.IntN(len(s.people[page]))]
		if k.ofOne {
			f.page = page
		}
		list = append(list, f)
	}
	return list
}

// strike has a fault happen now.
func (w *world) strike(f fault) {
	all := kinds()
	k := all[slices.IndexFunc(all, func(k kind) bool { return k.name == f.kind })]
	x := &window{kind: f.kind, from: w.now(), to: w.now() + f.lasts, page: f.page}
	w.mu.Lock()
	w.windows = append(w.windows, x)
	w.mu.Unlock()
	w.note("FAULT", f.String(), "", "")
	if end := k.begin(w, f); end != nil {
		w.work.Go(func() {
			time.Sleep(f.lasts)
			end()
			w.note("FAULT", fmt.Sprintf("%2d: %s ends", f.number, f.kind), "", "")
			w.mu.Lock()
			x.to = w.now()
			w.mu.Unlock()
		})
	}
}

// most is the largest number of programs of one sort.
const most = 4

// add starts a program.
func (w *world) add(isDisp bool) {
	if len(w.living(isDisp)) < most {
		w.begin(isDisp)
	}
}

// pick returns the program that a fault concerns, nil without any that has no fault yet.
func (w *world) pick(isDisp bool, f fault) *program {
	list := slices.DeleteFunc(w.living(isDisp), func(p *program) bool { return p.busy.Load() })
	if len(list) == 0 {
		return nil
	}
	p := list[f.which%len(list)]
	w.note("FAULT", fmt.Sprintf("%2d: concerns %s", f.number, p.name), "", "")
	return p
}

// ends stops or kills a program. Another takes its place where none is left.
func ends(isDisp, kill bool) func(w *world, f fault) func() {
	return func(w *world, f fault) func() {
		p := w.pick(isDisp, f)
		if p == nil {
			return nil
		}
		w.take(p)
		if kill {
			p.cut(f.noticed, true)
			if p.way != nil {
				p.way.hang(false)
			}
		}
		p.cancel()
		if len(w.living(isDisp)) == 0 || f.chance < .5 {
			w.begin(isDisp)
		}
		return nil
	}
}

func cuts(isDisp bool) func(w *world, f fault) func() {
	return func(w *world, f fault) func() {
		p := w.pick(isDisp, f)
		if p == nil {
			return nil
		}
		p.busy.Store(true)
		p.cut(f.noticed, false)
		return func() { p.heal(); p.busy.Store(false) }
	}
}

// silences has nothing pass between a program and the broker, and where the program is
// frozen nothing between it and the platform.
func silences(isDisp, freezes bool) func(w *world, f fault) func() {
	return func(w *world, f fault) func() {
		p := w.pick(isDisp, f)
		if p == nil {
			return nil
		}
		p.busy.Store(true)
		p.silence()
		if freezes {
			p.way.hang(true)
		}
		return func() {
			if freezes {
				p.way.hang(false)
			}
			if f.isLost {
				p.cut(f.noticed, false)
				time.Sleep(time.Second)
			}
			p.heal()
			p.busy.Store(false)
		}
	}
}

func ofWay(w *world, f fault, begin, end func(*way)) func() {
	p := w.pick(true, f)
	if p == nil {
		return nil
	}
	begin(p.way)
	return func() { end(p.way) }
}

// wholeBroker has the broker say nothing to anybody, or be restarted.
func (w *world) wholeBroker(restarts bool) func() {
	list := slices.DeleteFunc(slices.Clone(w.alive), func(p *program) bool { return p.busy.Load() })
	w.hlink.silence()
	for _, p := range list {
		p.busy.Store(true)
		p.silence()
		if restarts {
			p.cut(0, false)
		}
	}
	return func() {
		w.hlink.heal()
		for _, p := range list {
			p.heal()
			p.busy.Store(false)
		}
	}
}

func (w *world) raiseAlarm() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alarm != nil {
		return nil
	}
	w.alarm = make(chan struct{})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		close(w.alarm)
		w.alarm = nil
	}
}

// someQueue is the queue that a fault concerns.
func (w *world) someQueue(f fault) string {
	i := f.which % w.top.Partitions
	names := []string{
		w.top.Inbound(i), w.top.Outbound(i), w.top.Lane(i, f.which%queue.LanesPerPartition),
		w.top.Retry(time.Second), w.top.Retry(10 * time.Second), w.top.Dead(), w.top.Orders(),
	}
	name := names[int(f.chance*float64(len(names)))]
	w.note("FAULT", fmt.Sprintf("%2d: concerns %s", f.number, name), "", "")
	return name
}

// both changes something, and returns the function that changes it back.
func (w *world) both(change func(on int)) func() {
	do := func(on int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		change(on)
	}
	do(1)
	return func() { do(-1) }
}

// settings changes the platform's.
func (w *world) settings(change func(*fakeapi.Settings)) {
	w.applying.Lock()
	defer w.applying.Unlock()
	s := w.api.Settings()
	change(&s)
	if err := w.api.Apply(s); err != nil {
		w.fail("PLATFORM", "", "%v", err)
	}
}

// ofPage changes those of a page.
func (w *world) ofPage(page string, change func(*fakeapi.PageSettings)) {
	w.settings(func(s *fakeapi.Settings) {
		own := fakeapi.PageSettings{}
		if o := s.Pages[page]; o != nil {
			own = *o
		}
		change(&own)
		if s.Pages == nil {
			s.Pages = make(map[string]*fakeapi.PageSettings)
		}
		s.Pages[page] = &own
	})
}

func platform(change func(f *fakeapi.Faults, chance, on float64)) func(w *world, f fault) func() {
	return func(w *world, f fault) func() {
		w.settings(func(s *fakeapi.Settings) { change(&s.Faults, f.chance, 1) })
		return func() { w.settings(func(s *fakeapi.Settings) { change(&s.Faults, f.chance, 0) }) }
	}
}

func injects(what func(fault) fakeapi.Inject) func(w *world, f fault) func() {
	return func(w *world, f fault) func() {
		in := what(f)
		in.Page = f.page
		w.settings(func(s *fakeapi.Settings) { s.Inject = append(s.Inject, in) })
		return func() {
			w.settings(func(s *fakeapi.Settings) {
				if i := slices.Index(s.Inject, in); i >= 0 {
					s.Inject = slices.Delete(s.Inject, i, i+1)
				}
			})
		}
	}
}

// pageIs changes a page's state. At the end the operator has its token read again.
func pageIs(state fakeapi.PageState) func(w *world, f fault) func() {
	return func(w *world, f fault) func() {
		w.ofPage(f.page, func(p *fakeapi.PageSettings) { p.State = state })
		return func() {
			w.ofPage(f.page, func(p *fakeapi.PageSettings) { p.State = fakeapi.Active })
			w.pagesChanged(f.page)
		}
	}
}
