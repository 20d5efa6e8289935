package fakeapi

import (
	"cmp"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/wire"
)

const (
	defaultTimeout  = 60 * time.Second // longer than any sensible client waits
	defaultSlowBody = 2 * time.Second
)

// outcome is the platform's decision about a call.
type outcome struct {
	answer    *answer // nil: accepted and answered so
	cut       bool    // the connection is lost instead of an answer
	hang      time.Duration
	bodyDelay time.Duration
	result    ledger.Result
	regain    time.Duration // Inject.Regain
}

// send judges one authorized call, enters it into the ledger and writes the
// answer.
func (c *call) send(resp *Response) {
	to, id := c.body.recipient(), c.body.id()
	rate, refused := c.api.app.arrive(c.now, c.set)
	o := c.judge(refused)
	class := c.body.class()
	if o.result == ledger.Accepted && c.body.Message == nil {
		// A sender action: a call that counts, but no message.
		c.page.account.Record(c.now, ledger.Send{Class: class, Result: ledger.Accepted, Action: true})
	} else {
		c.page.account.Record(c.now, ledger.Send{Class: class, Result: o.result, Recipient: to, ID: id})
	}
	// To the platform's own eyes a call that Swallow hits is a success.
	c.api.app.end(c.now, c.set, o.answer != nil || o.result == ledger.Failed)

	resp.Delay = o.hang + c.set.Latency.sample(&c.dice, rate)
	resp.BodyDelay, resp.Cut = o.bodyDelay, o.cut
	c.hint(resp, o)
	if o.answer != nil {
		c.writeError(resp, o.answer)
	} else {
		resp.Body = c.appendSuccess(resp.Body)
	}
	if o.result == ledger.Accepted {
		c.notify()
	}
}

// judge decides in the platform's order as far as it is known: who calls, how
// often, what, to whom. Only the last step accepts. app is the answer of the
// app's own limits.
func (c *call) judge(app *answer) outcome {
	set, f := c.set, c.set.Faults
	if app != nil {
		return denied(app)
	}
	if why := set.state(c.page.id, c.now); why != nil {
		return denied(why)
	}
	switch {
	case c.dice.hit(f.ServerError):
		return denied(errUnavailable)
	case c.dice.hit(f.ResetBefore):
		return outcome{cut: true, result: ledger.Failed}
	case c.dice.hit(f.Timeout):
		return outcome{cut: true, result: ledger.Failed, hang: cmp.Or(time.Duration(f.TimeoutFor), defaultTimeout)}
	}
	if why := c.page.admit(c.now, set, c.body.class(), c.api.cfg.Seed); why != nil {
		return denied(why)
	}
	if c.bodyErr != nil {
		return denied(errParam.because("%s", c.bodyErr))
	}
	if why := c.body.validate(set.IsInstagram(c.page.id)); why != nil {
		return denied(why)
	}
	to := c.body.recipient()
	in := c.inject(to)
	if why := c.judgeRecipient(to, in); why != nil {
		o := denied(why)
		if in != nil && why == in.answer {
			o.regain = time.Duration(in.Regain)
		}
		return o
	}
	switch {
	case in != nil:
		return outcome{cut: true, result: ledger.Failed, hang: time.Duration(in.Hang)}
	case c.dice.hit(f.Swallow):
		return outcome{result: ledger.Rejected}
	case c.dice.hit(f.ResetAfter):
		return outcome{cut: true}
	case c.dice.hit(f.SentYet):
		return outcome{answer: errSentYet}
	case c.dice.hit(f.SlowBody):
		return outcome{bodyDelay: cmp.Or(time.Duration(f.SlowBodyBy), defaultSlowBody)}
	}
	return outcome{}
}

func denied(why *answer) outcome { return outcome{answer: why, result: why.result} }

// judgeRecipient returns the error answer that the recipient gets, nil if the
// message can be delivered to it. in is the injection that applies, nil without
// any: it was asked before, so that a counted one is used up by every call that
// it applies to.
func (c *call) judgeRecipient(to string, in *injection) *answer {
	var injected *answer
	if in != nil {
		injected = in.answer
	}
	answers := [...]*answer{c.api.answers.requested(to), injected, c.set.badRecipient(c.api.cfg.Seed, c.page.id, to), c.left(to)}
	for _, why := range answers {
		if why != nil {
			return why
		}
	}
	return c.page.admitRecipient(c.now, c.set, to)
}

// inject uses up one of the first injection that applies, and returns it.
func (c *call) inject(to string) *injection {
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
		return in
	}
	return nil
}

// appendSuccess appends the answer to an accepted call. A sender action has no
// message id.
func (c *call) appendSuccess(b []byte) []byte {
	b = append(b, `{"recipient_id":`...)
	b = wire.Append(b, c.body.recipient())
	if c.body.Message != nil {
		b = append(b, `,"message_id":"`...)
		b = wire.AppendMID(b, c.api.cfg.Seed, c.number)
		b = append(b, '"')
	}
	return append(b, '}')
}

// notify passes an accepted call to the observers.
func (c *call) notify() {
	observers := c.api.observers.load()
	if len(observers) == 0 {
		return
	}
	x := c.acceptance()
	for _, f := range observers {
		(*f)(x)
	}
}

func (c *call) acceptance() Acceptance {
	x := Acceptance{Page: c.page.id, Recipient: c.body.recipient(), Action: c.body.SenderAction, At: c.now}
	if c.body.Message == nil {
		return x
	}
	m := &c.body.Message.v
	x.ID, x.MID = m.Metadata, string(wire.AppendMID(nil, c.api.cfg.Seed, c.number))
	if m.Text != nil {
		x.Text = *m.Text
	}
	if m.Attachment != nil {
		x.Type = m.Attachment.Type
		x.URL, _ = m.Attachment.mediaURL()
	}
	var text string
	if x.Buttons, text = m.buttons(); text != "" {
		x.Text = text
	}
	return x
}

// The published mix of a public project's errors in 30 days: 10 61.5 %, 551
// 17.4 %, 100 12.0 %. The rest is not about recipients.
const mixWindow, mixGone, mixNoUser = 61.5, 17.4, 12.0

// badRecipient returns the answer of a bad recipient. It depends on page,
// recipient and seed alone, so that the same recipient always gets the same
// answer.
func (set *live) badRecipient(seed uint64, page, to string) *answer {
	if set.BadRecipients == 0 {
		return nil
	}
	d := newDice(seed^hashString(page), hashString(to))
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
