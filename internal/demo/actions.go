package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
	"chatclub/internal/console"
)

var english = message.NewPrinter(language.English)

const (
	floodTime   = 10 * time.Second
	hangTime    = 15 * time.Second
	outageTime  = 10 * time.Second
	failTime    = 20 * time.Second
	articleTime = 20 * time.Second
	// proofTime is the longest time for which an action's effects are followed.
	proofTime = 90 * time.Second
	proofPoll = 200 * time.Millisecond
)

// action is something that a visitor can do. start begins it and returns its receipt;
// Demo.follow runs the rest of it.
type action struct {
	name  string
	start func(d *Demo, on console.Target) (receipt int, err error)
}

// actions are all of them, in the order of their buttons.
func actions() []action {
	return []action{
		{"flood", (*Demo).flood},
		{"kill", (*Demo).kill},
		{"hang", (*Demo).hang},
		{"add", (*Demo).add},
		{"remove", (*Demo).remove},
		{"halve", (*Demo).halve},
		{"restore", (*Demo).restore},
		{"outage", (*Demo).outage},
		{"fail-recipient", (*Demo).failRecipient},
		{"article", (*Demo).article},
		{"tour", (*Demo).play},
	}
}

// Actions implements console.Demo.
func (d *Demo) Actions() []console.Action {
	list := make([]console.Action, 0, len(actions()))
	article, dispatchers, limit := d.cfg.Crew.Article(), len(d.cfg.Crew.Active()), d.cfg.API.Settings().Text.PerSecond
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for _, a := range actions() {
		x := console.Action{Name: a.name}
		g, on := d.busy[a.name]
		if x.Page = g.page; now.Before(g.until) {
			x.Until = &g.until
		}
		switch {
		case on:
			x.Why = "it goes on"
		case a.name == "halve" && limit < d.limit:
			x.Why = "the limit is halved already"
		case a.name == "restore" && limit == d.limit:
			x.Why = "the limit is as it was"
		case article && slices.Contains([]string{"kill", "hang", "add", "remove", "article", "tour"}, a.name):
			x.Why = "the article's dispatchers work now"
		case dispatchers < 2 && slices.Contains([]string{"kill", "hang", "remove"}, a.name):
			x.Why = "there must be two dispatchers"
		case dispatchers >= MaxDispatchers && a.name == "add":
			x.Why = "there are enough dispatchers"
		}
		x.Enabled = x.Why == ""
		list = append(list, x)
	}
	return list
}

// Act implements console.Demo.
func (d *Demo) Act(_ context.Context, name string, on console.Target) (receipt int, err error) {
	i := slices.IndexFunc(actions(), func(a action) bool { return a.name == name })
	if i < 0 {
		return 0, console.ErrUnknown
	}
	if on.Page != "" && !slices.Contains(d.pages, on.Page) {
		return 0, errors.New("page is none of this demonstration")
	}
	for _, a := range d.Actions() {
		if a.Name == name && !a.Enabled {
			return 0, errors.New(a.Why)
		}
	}
	return actions()[i].start(d, on)
}

// follow runs f beside, until it ends by itself or the demonstration does. An action
// of some length is not done twice at a time: it goes on until f calls over, or ends.
func (d *Demo) follow(name, page string, length time.Duration, f func(ctx context.Context, over func())) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return errors.New("the demonstration ends")
	}
	if length > 0 {
		if _, on := d.busy[name]; on {
			return errors.New("it goes on already")
		}
		d.busy[name] = going{time.Now().Add(length), page}
	}
	mine := d.busy[name]
	over := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.busy[name] == mine {
			delete(d.busy, name)
		}
	}
	d.work.Go(func() {
		f(d.running, over)
		over()
	})
	return nil
}

// worst is the page that an action without one is for: one in excess with the most
// that waits, else the busiest.
func (d *Demo) worst() console.Page {
	pages := slices.Clone(d.console.State().Pages)
	if len(pages) == 0 {
		return console.Page{ID: d.pages[0], Name: d.Name(d.pages[0])}
	}
	return slices.MaxFunc(pages, func(a, b console.Page) int {
		if (a.State == "excess") != (b.State == "excess") {
			if a.State == "excess" {
				return 1
			}
			return -1
		}
		return a.Waiting + a.Sent - b.Waiting - b.Sent
	})
}

// victim is the dispatcher that an action is done to, and a page that it sends for,
// which may be none.
func (d *Demo) victim(on console.Target) (name string, page console.Page, err error) {
	if on.Dispatcher == "" {
		p := d.worst()
		if p.Owner == "" {
			return "", p, fmt.Errorf("no dispatcher sends for %s just now", p.Name)
		}
		return p.Owner, p, nil
	}
	for _, p := range d.console.State().Pages {
		if p.Owner == on.Dispatcher && (page.ID == "" || p.Waiting > page.Waiting) {
			page = p
		}
	}
	return on.Dispatcher, page, nil
}

func (d *Demo) flood(on console.Target) (int, error) {
	page := on.Page
	if page == "" {
		page = d.pages[0]
	}
	if d.cfg.Crowd.group(page) == nil {
		return 0, errors.New("page is none of those that can be flooded")
	}
	name := d.Name(page)
	n := d.begin(english.Sprintf("%s asks for %d times its limit for %.0f s …", name, flood, floodTime.Seconds()), "flood", page)
	before := d.cfg.API.Ledger().Accounts()[page]
	return n, d.follow("flood", page, floodTime, func(ctx context.Context, over func()) {
		if err := d.cfg.Crowd.Flood(ctx, page, floodTime); err != nil {
			d.write(n, "The flood failed: "+err.Error(), console.Sick, true)
			return
		}
		over()
		d.mark("flood ends", page)
		end := "It has caught up."
		if d.proof(ctx, time.Now()) {
			end = "It has not caught up yet."
		}
		after := d.cfg.API.Ledger().Accounts()[page]
		d.write(n, english.Sprintf("%s asked for %d times its limit for %.0f s: %d calls, %d refused. %s",
			name, flood, floodTime.Seconds(), after.Calls-before.Calls, after.Refused-before.Refused, end), console.Calm, true)
	})
}

func (d *Demo) kill(on console.Target) (int, error) {
	name, page, err := d.victim(on)
	if err != nil {
		return 0, err
	}
	before := d.totals()
	resumed, forget := d.cfg.Crew.NextSend(page.ID, name)
	inFlight, err := d.cfg.Crew.Kill(name)
	if err != nil {
		forget()
		return 0, err
	}
	at := time.Now()
	d.mu.Lock()
	d.explained += int64(2*inFlight + untold)
	d.mu.Unlock()
	text := english.Sprintf("%s killed with %s in flight", name, console.Plural(inFlight, "call", "calls"))
	n := d.begin(text+" …", name+" killed", page.ID)
	return n, d.follow("kill", page.ID, 0, func(ctx context.Context, _ func()) {
		defer forget()
		text += d.takenOver(ctx, n, text, handOver{page, at, resumed}, proofTime)
		d.finish(ctx, n, text, at, before)
	})
}

// handOver is a page whose dispatcher cannot send since at.
type handOver struct {
	page    console.Page // none: its ID is empty
	at      time.Time
	resumed <-chan string // gets the name of the next dispatcher that sends
}

// takenOver waits until another dispatcher sends for the page, and adds that to the
// receipt. It returns the added text: none if there is no page, or
// if that takes longer than most.
func (d *Demo) takenOver(ctx context.Context, n int, text string, h handOver, most time.Duration) string {
	if h.page.ID == "" {
		return ""
	}
	select {
	case by := <-h.resumed:
		d.mark(by+" takes over", h.page.ID)
		more := fmt.Sprintf(", %s taken over by %s after %s", h.page.Name, by, since(h.at))
		d.write(n, text+more+" …", console.Calm, false)
		return more
	case <-time.After(most):
	case <-ctx.Done():
	}
	return ""
}

// untold bounds the answered calls of a killed dispatcher whose acknowledgements had
// not reached the broker. They come on top of the calls in flight.
const untold = 16

// finish ends a receipt with the lost and doubled copies of all that was written
// before at.
func (d *Demo) finish(ctx context.Context, n int, text string, at time.Time, before ledger.Counts) {
	waiting := d.proof(ctx, at)
	after := d.totals()
	d.mu.Lock()
	lost := d.lost
	d.mu.Unlock()
	level := console.Calm
	if lost > 0 {
		level = console.Sick
	}
	text += english.Sprintf(": %d lost, %d doubled.", lost, after.Duplicated-before.Duplicated)
	if waiting && lost == 0 {
		text += " Some still wait for their page's limit."
	}
	d.write(n, text, level, true)
}

// proof waits until every copy that was announced before at has arrived. It returns
// true when some have not, in proofTime.
func (d *Demo) proof(ctx context.Context, at time.Time) (waiting bool) {
	for end := time.Now().Add(proofTime); time.Now().Before(end); {
		r := d.cfg.API.Ledger().Report(ledger.Query{})
		if r.Totals.Pending == 0 || r.Now.Add(-r.PendingAgeMax).After(at) {
			return false
		}
		d.mu.Lock()
		lost := d.lost
		d.mu.Unlock()
		if lost > 0 || !backoff.Sleep(ctx, proofPoll) {
			break
		}
	}
	return true
}

func (d *Demo) hang(on console.Target) (int, error) {
	name, page, err := d.victim(on)
	if err != nil {
		return 0, err
	}
	before := d.totals()
	resume, err := d.cfg.Crew.Hang(name)
	if err != nil {
		return 0, err
	}
	at := time.Now()
	resumed, forget := d.cfg.Crew.NextSend(page.ID, name)
	text := name + " gets no answer from the platform"
	n := d.begin(text+" …", name+" hangs", page.ID)
	err = d.follow("hang", page.ID, hangTime, func(ctx context.Context, over func()) {
		defer forget()
		end := time.After(hangTime)
		text += d.takenOver(ctx, n, text, handOver{page, at, resumed}, hangTime)
		select {
		case <-end:
		case <-ctx.Done():
		}
		resume()
		over()
		d.mark(name+" answers again", "")
		d.finish(ctx, n, text, at, before)
	})
	if err != nil {
		resume()
		forget()
	}
	return n, err
}

// maxAdded is the number of dispatchers that can be added at a time.
const maxAdded = 8

func (d *Demo) add(on console.Target) (int, error) {
	count := max(1, on.Count)
	if count > maxAdded {
		return 0, fmt.Errorf("count %d must be at most %d", count, maxAdded)
	}
	before, at := d.totals(), time.Now()
	names, err := d.cfg.Crew.Add(d.running, count)
	if err != nil {
		return 0, err
	}
	who := join(names)
	verb := "joins"
	if count > 1 {
		verb = "join"
	}
	n := d.begin(who+" "+verb+" …", who+" "+verb, "")
	return n, d.follow("add", "", 0, func(ctx context.Context, _ func()) {
		text := who + " " + verb
		var owned []string
		for len(owned) == 0 && backoff.Sleep(ctx, proofPoll) && time.Since(at) < 15*time.Second {
			for _, p := range d.console.State().Pages {
				if slices.Contains(names, p.Owner) {
					owned = append(owned, p.Name)
				}
			}
		}
		if len(owned) > 0 {
			text += fmt.Sprintf(", and took over %s after %s", join(owned), since(at))
		}
		d.finish(ctx, n, text, at, before)
	})
}

func (d *Demo) remove(on console.Target) (int, error) {
	name := on.Dispatcher
	if active := d.cfg.Crew.Active(); name == "" {
		name = active[len(active)-1]
	} else if !slices.Contains(active, name) {
		return 0, fmt.Errorf("no dispatcher %.20q runs", name)
	}
	before, at := d.totals(), time.Now()
	n := d.begin(name+" is asked to stop …", name+" stops", "")
	return n, d.follow("remove", "", 0, func(ctx context.Context, _ func()) {
		if err := d.cfg.Crew.Remove(name); err != nil {
			d.write(n, name+" did not stop well: "+err.Error(), console.Sick, true)
			return
		}
		d.finish(ctx, n, fmt.Sprintf("%s stopped within %s", name, since(at)), at, before)
	})
}

// setLimit changes the platform's limit of every page.
func (d *Demo) setLimit(limit int) error {
	return d.cfg.API.Patch(fmt.Appendf(nil, `{"text":{"per_second":%d}}`, limit))
}

func (d *Demo) halve(console.Target) (int, error) {
	return d.changeLimit("halve", max(1, d.limit/2), "Limit halved to %d/s")
}

func (d *Demo) restore(console.Target) (int, error) {
	return d.changeLimit("restore", d.limit, "Limit back at %d/s")
}

// learnTime is the time for which the dispatchers are watched after a change of limit.
const learnTime = 8 * time.Second

func (d *Demo) changeLimit(name string, limit int, text string) (int, error) {
	before := d.totals()
	if err := d.setLimit(limit); err != nil {
		return 0, err
	}
	text = english.Sprintf(text, limit)
	n := d.begin(text+", which nobody tells the dispatchers …", strings.ToLower(text), "")
	return n, d.follow(name, "", 0, func(ctx context.Context, _ func()) {
		backoff.Sleep(ctx, learnTime)
		if d.cfg.Crew.Article() {
			d.write(n, text+".", console.Calm, true) // the article's refusals are not ours
			return
		}
		after := d.totals()
		refused, calls := after.Refused-before.Refused, after.Calls-before.Calls
		d.write(n, english.Sprintf("%s, which nobody told the dispatchers: %d of %d calls were refused in the %.0f s since.",
			text, refused, refused+calls, learnTime.Seconds()), console.Calm, true)
	})
}

func (d *Demo) outage(console.Target) (int, error) {
	before, at := d.totals(), time.Now()
	fail := func(share float64) error {
		return d.cfg.API.Patch(fmt.Appendf(nil, `{"faults":{"server_error":%g}}`, share))
	}
	was := d.cfg.API.Settings().Faults.ServerError
	if err := fail(1); err != nil {
		return 0, err
	}
	n := d.begin("The API answers every call with an error …", "API down", "")
	return n, d.follow("outage", "", outageTime, func(ctx context.Context, over func()) {
		backoff.Sleep(ctx, outageTime)
		back := time.Now()
		sent, forget := d.cfg.Crew.NextSend("", "")
		defer forget()
		if err := fail(was); err != nil {
			d.write(n, "The API stays down: "+err.Error(), console.Sick, true)
			return
		}
		over()
		d.mark("API back", "")
		failed := d.totals().Errors - before.Errors
		text := english.Sprintf("API down for %.0f s, %s failed", back.Sub(at).Seconds(), console.Plural(int(failed), "call", "calls"))
		select {
		case <-sent:
			text += fmt.Sprintf(", sends went on %s after it was back", since(back))
			d.write(n, text+" …", console.Calm, false)
		case <-ctx.Done():
		}
		d.finish(ctx, n, text, back, before)
	})
}

func (d *Demo) failRecipient(on console.Target) (int, error) {
	page := on.Page
	if page == "" {
		page = d.worst().ID
	}
	user, ok := d.cfg.Crowd.Member(page)
	if !ok {
		return 0, errors.New("page is none of those with people of their own")
	}
	before, at := d.totals(), time.Now()
	set := func(list []fakeapi.Inject) error {
		s := d.cfg.API.Settings()
		s.Inject = list
		return d.cfg.API.Apply(s)
	}
	was := d.cfg.API.Settings().Inject
	if err := set(append(slices.Clone(was), fakeapi.Inject{Code: "2", Page: page, Recipient: user})); err != nil {
		return 0, err
	}
	name := d.Name(page)
	n := d.begin(english.Sprintf("Every call for one person in %s fails for %.0f s …", name, failTime.Seconds()), "one person fails", page)
	return n, d.follow("fail-recipient", page, failTime, func(ctx context.Context, over func()) {
		backoff.Sleep(ctx, failTime)
		if err := set(append([]fakeapi.Inject{}, was...)); err != nil {
			d.write(n, "The person stays sick: "+err.Error(), console.Sick, true)
			return
		}
		d.mark("person well again", page)
		over()
		text := english.Sprintf("Every call for one person in %s failed for %.0f s, %d in all", name, failTime.Seconds(), d.totals().Errors-before.Errors)
		d.write(n, text+"; its messages follow …", console.Calm, false)
		d.finish(ctx, n, text, at, before)
	})
}

func (d *Demo) article(console.Target) (int, error) { return d.doArticle(articleTime) }

// doArticle has the article's dispatchers work for a time, and then ours again.
func (d *Demo) doArticle(length time.Duration) (int, error) {
	n := d.begin("The same load, done the article's way …", "the article's way", "")
	return n, d.follow("article", "", length, func(ctx context.Context, over func()) { d.followArticle(ctx, over, n, length) })
}

func (d *Demo) followArticle(ctx context.Context, over func(), n int, length time.Duration) {
	before, at := d.totals(), time.Now()
	sick := func(err error) { d.write(n, "The dispatchers could not be changed: "+err.Error(), console.Sick, true) }
	d.cfg.Divert.Set(true)
	if err := d.cfg.Crew.Switch(ctx, true); err != nil {
		d.cfg.Divert.Set(false)
		sick(err)
		return
	}
	page := d.pages[0]
	if err := d.cfg.Crowd.Flood(ctx, page, length-time.Since(at)); err != nil {
		sick(err)
	}
	d.cfg.Divert.Set(false)
	after := d.totals()
	if err := d.cfg.Crew.Switch(ctx, false); err != nil {
		sick(err)
		return
	}
	over()
	d.mark("ours again", "")
	refused, calls := after.Refused-before.Refused, after.Calls-before.Calls
	share := 100 * float64(refused) / max(1, float64(calls))
	text := english.Sprintf("The article's way for %.0f s: %d calls refused for %d accepted (%.0f %%). Then ours again", length.Seconds(), refused, calls, share)
	d.write(n, text+" …", console.Excess, false)
	mine := d.totals()
	backoff.Sleep(ctx, learnTime)
	now := d.totals()
	r, c := now.Refused-mine.Refused, now.Calls-mine.Calls
	d.write(n, text+english.Sprintf(": %d of %d.", r, r+c), console.Excess, true)
}

// since returns the time since a moment, for people.
func since(at time.Time) string { return fmt.Sprintf("%.1f s", time.Since(at).Seconds()) }

// join makes a list of words.
func join(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
