package fakeapi

import (
	"strings"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/wire"
)

const (
	defaultTimeout  = 60 * time.Second // longer than any sensible client waits
	defaultSlowBody = 2 * time.Second
)

// fate is what the platform decided about a call.
type fate struct {
	answer    *answer // nil: accepted and answered so
	cut       bool    // the connection is lost instead of an answer
	hang      time.Duration
	bodyDelay time.Duration
	result    ledger.Result
}

// send judges one authorized call, books it and writes the answer.
func (a *API) send(c *call, resp *Response) {
	if people := a.people(); people != nil && people.Concerns(c.body.recipient(), c.body.id()) {
		c.people = people
	}
	rate, refused := a.app.arrive(c.now, c.set)
	f := a.judge(c, refused)
	class := c.body.class()
	if f.result == ledger.Accepted && c.body.Message == nil {
		// A sender action: a call that counts, but no message.
		c.page.book.Record(c.now, ledger.Send{Class: class, Result: ledger.Accepted, Action: true})
	} else {
		c.page.book.Record(c.now, ledger.Send{Class: class, Result: f.result, Recipient: c.body.recipient(), ID: c.body.id(), Unannounced: c.people != nil})
	}
	// What Swallow drops is a success to the platform's own eyes.
	a.app.settle(c.now, c.set, f.answer != nil || f.result == ledger.Failed)

	resp.Delay = f.hang + c.set.Latency.sample(&c.dice, rate)
	resp.BodyDelay, resp.Cut = f.bodyDelay, f.cut
	resp.Usage = c.page.appendUsage(resp.Usage, c.now, c.set, class)
	switch {
	case f.answer != nil:
		a.writeError(c, resp, f.answer)
	default:
		resp.Body = a.appendSuccess(resp.Body, c)
	}
	if f.result == ledger.Accepted {
		a.notifyAccepted(c)
	}
}

// judge decides in the platform's order as far as it is known: who calls, how
// often, what, to whom. Only the last step accepts.
func (a *API) judge(c *call, app *answer) fate {
	set, f := c.set, c.set.Faults
	if app != nil {
		return c.denied(app)
	}
	if why := set.state(c.page.id, c.now); why != nil {
		return c.denied(why)
	}
	switch {
	case c.dice.hit(f.ServerError):
		return c.denied(errUnavailable)
	case c.dice.hit(f.ResetBefore):
		return fate{cut: true, result: ledger.Failed}
	case c.dice.hit(f.Timeout):
		return fate{cut: true, result: ledger.Failed, hang: orDefault(f.TimeoutFor, defaultTimeout)}
	}
	if why := c.page.admit(c.now, set, c.body.class(), a.seed); why != nil {
		return c.denied(why)
	}
	if c.bodyErr != nil {
		return c.denied(errParam.because("%s", c.bodyErr))
	}
	if why := c.body.validate(); why != nil {
		return c.denied(why)
	}
	to := c.body.recipient()
	for _, why := range []*answer{a.requested(to), a.injected(c, to), a.badRecipient(set, c.page.id, to), c.left(to)} {
		if why != nil {
			return c.denied(why)
		}
	}
	if why := c.page.admitRecipient(c.now, set, to); why != nil {
		return c.denied(why)
	}
	switch {
	case c.dice.hit(f.Swallow):
		return fate{result: ledger.Rejected}
	case c.dice.hit(f.ResetAfter):
		return fate{cut: true}
	case c.dice.hit(f.SentYet):
		return fate{answer: errSentYet}
	case c.dice.hit(f.SlowBody):
		return fate{bodyDelay: orDefault(f.SlowBodyBy, defaultSlowBody)}
	}
	return fate{}
}

func (c *call) denied(why *answer) fate { return fate{answer: why, result: why.result} }

func orDefault(d Duration, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}

// requested is the answer that a recipient's name asks for: error-551, or
// error-613-2018338. Real recipients are numbers.
func (a *API) requested(to string) *answer {
	name, ok := strings.CutPrefix(to, "error-")
	if !ok {
		return nil
	}
	i := strings.LastIndexByte(name, '-')
	if i > 0 {
		name = name[:i] + "/" + name[i+1:]
	}
	return a.catalogue[Code(name)]
}

// injected is the answer of the first injection that applies.
func (a *API) injected(c *call, to string) *answer {
	for _, in := range c.set.injections {
		if in.Page != "" && in.Page != c.page.id || in.Recipient != "" && in.Recipient != to {
			continue
		}
		if in.Probability != 0 && !c.dice.hit(in.Probability) {
			continue
		}
		if in.Count > 0 && in.left.Add(-1) < 0 {
			continue
		}
		return in.answer
	}
	return nil
}

// The published mix of a public project's errors in 30 days: 10 61.5 %, 551
// 17.4 %, 100 12.0 %; the rest is not about recipients.
const mixWindow, mixGone, mixNoUser = 61.5, 17.4, 12.0

// BadRecipient tells whether the recipient is one that always answers an
// error under the settings in force.
func (a *API) BadRecipient(page, to string) bool {
	return a.badRecipient(a.live.Load(), page, to) != nil
}

// badRecipient depends on page, recipient and seed alone, so that the same
// recipient always gets the same answer.
func (a *API) badRecipient(set *live, page, to string) *answer {
	if set.BadRecipients == 0 {
		return nil
	}
	d := newDice(a.seed^hashString(page), hashString(to))
	if !d.hit(set.BadRecipients) {
		return nil
	}
	switch x := d.roll() * (mixWindow + mixGone + mixNoUser); {
	case x < mixWindow:
		return errWindow
	case x < mixWindow+mixGone:
		return errGone
	}
	return errNoUser
}

// appendSuccess appends the answer to an accepted call. A sender action has no
// message id.
func (a *API) appendSuccess(b []byte, c *call) []byte {
	b = append(b, `{"recipient_id":`...)
	b = wire.AppendString(b, c.body.recipient())
	if c.body.Message != nil {
		b = append(b, `,"message_id":"`...)
		b = wire.AppendMID(b, a.seed, c.number)
		b = append(b, '"')
	}
	return append(b, '}')
}

func (a *API) notifyAccepted(c *call) {
	list := a.observers.Load()
	if (list == nil || len(*list) == 0) && c.people == nil {
		return
	}
	x := Acceptance{Page: c.page.id, Recipient: c.body.recipient(), Action: c.body.SenderAction, At: c.now}
	if c.body.Message != nil {
		m := &c.body.Message.v
		x.ID, x.MID = m.Metadata, string(wire.AppendMID(nil, a.seed, c.number))
		if m.Text != nil {
			x.Text = *m.Text
		}
		if m.Attachment != nil {
			x.Type = m.Attachment.Type
			x.URL, _ = m.Attachment.mediaURL()
		}
		var words string
		if x.Buttons, words = m.buttons(); words != "" {
			x.Text = words
		}
	}
	if c.people != nil {
		c.people.Deliver(x)
	}
	if list == nil {
		return
	}
	for _, f := range *list {
		(*f)(x)
	}
}
