package fakeapi

import (
	"context"
	"slices"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/webhook"
	"chatclub/fakeapi/wire"
)

// phoneState is where a phone stands with its page.
type phoneState string

const (
	phoneNew     phoneState = "new"     // has never joined
	phoneJoining phoneState = "joining" // "Get Started" is under way
	phoneJoined  phoneState = "joined"
	phoneLeft    phoneState = "left"
)

// sendState is how far a phone's own message is.
type sendState string

const (
	phoneSending sendState = "sending" // the webhook has not answered 200 yet
	phoneSent    sendState = "sent"
	phoneFailed  sendState = "failed"
)

// phone is one of the Phones, guarded by their lock.
type phone struct {
	id, page, user string
	state          phoneState
	typingUntil    time.Time
	next           int            // number of its next message
	messages       []phoneMessage // the latest, oldest first
	outbox         []phoneMessage // those to be posted, kept or not
	busy           bool           // a goroutine empties the outbox
}

// phoneMessage is one line of a phone's conversation, as JSON too. Of what the
// phone itself wrote State is set.
type phoneMessage struct {
	N       int       `json:"n"`
	State   sendState `json:"state,omitempty"`
	Tap     bool      `json:"tap,omitempty"` // of a button, not said
	Text    string    `json:"text,omitempty"`
	Picture string    `json:"picture,omitempty"` // name of a built-in one
	URL     string    `json:"url,omitempty"`     // of any other attachment
	Buttons []Button  `json:"buttons,omitempty"`
	At      time.Time `json:"at"`

	// Of what the phone itself wrote.
	start   bool   // it is "Get Started"
	quick   bool   // it is a quick reply
	payload string // of a button or quick reply
	rev     uint64
}

// phonesReport is the phones as JSON, or what changed of them.
type phonesReport struct {
	Rev     uint64        `json:"rev"`
	Full    bool          `json:"full"` // messages holds all that are kept, not only changed ones
	Waiting bool          `json:"waiting"`
	Pages   []string      `json:"pages,omitempty"` // with Full
	Max     int           `json:"max"`
	Phones  []phoneReport `json:"phones"` // all of them
}

type phoneReport struct {
	ID       string         `json:"id"`
	Page     string         `json:"page"`
	User     string         `json:"user"`
	State    phoneState     `json:"state"`
	Typing   bool           `json:"typing"`
	First    int            `json:"first"` // number of the oldest message kept
	Messages []phoneMessage `json:"messages"`
}

// report is what changed after revision since, everything if that is 0, and a
// channel that is closed when there is more.
func (p *Phones) report(since uint64) (phonesReport, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := phonesReport{
		Rev: p.rev, Full: since == 0, Waiting: p.waiting, Max: maxPhones, Phones: make([]phoneReport, 0, len(p.list)),
	}
	if r.Full {
		r.Pages = p.cfg.Pages[:min(len(p.cfg.Pages), 100)] // more nobody would look through
	}
	now := p.api.now()
	for _, f := range p.list {
		one := phoneReport{
			ID: f.id, Page: f.page, User: f.user, State: f.state,
			Typing: now.Before(f.typingUntil), First: f.next - len(f.messages), Messages: []phoneMessage{},
		}
		for _, m := range f.messages {
			if m.rev > since {
				one.Messages = append(one.Messages, m)
			}
		}
		r.Phones = append(r.Phones, one)
	}
	return r, p.changed
}

// with calls f under the lock with the phone of that id.
func (p *Phones) with(id string, do func(*phone) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.list {
		if f.id == id {
			return do(f)
		}
	}
	return errNoPhone
}

func deletePhone(list []*phone, f *phone) []*phone {
	return slices.DeleteFunc(slices.Clone(list), func(x *phone) bool { return x == f })
}

// touchLocked tells everybody who watches that something changed.
func (p *Phones) touchLocked() {
	p.rev++
	close(p.changed)
	p.changed = make(chan struct{})
}

// addLocked puts a message at the end of the conversation.
func (p *Phones) addLocked(f *phone, m phoneMessage) phoneMessage {
	m.N, m.At = f.next, p.api.now()
	f.next++
	p.touchLocked()
	m.rev = p.rev
	if len(f.messages) == keptMessages {
		f.messages = slices.Delete(f.messages, 0, 1)
	}
	f.messages = append(f.messages, m)
	return m
}

// sayLocked puts down what the phone itself writes.
func (p *Phones) sayLocked(f *phone, m phoneMessage) phoneMessage {
	m.State = phoneSending
	return p.addLocked(f, m)
}

// markLocked notes how far the phone's n-th message is, if it is still kept.
func (p *Phones) markLocked(f *phone, n int, s sendState) {
	i := n - (f.next - len(f.messages))
	if i < 0 || i >= len(f.messages) {
		return
	}
	p.touchLocked()
	f.messages[i].State, f.messages[i].rev = s, p.rev
}

// take shows what the Send API accepted for a phone. It is called for every
// send to one, by whoever serves it, and does not block.
func (p *Phones) take(x Acceptance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.byUser[x.Recipient]
	if f == nil || f.page != x.Page {
		return
	}
	switch x.Action {
	case "":
		f.typingUntil = time.Time{}
		m := phoneMessage{Text: x.Text, Buttons: x.Buttons}
		if m.Picture = p.pictureName(x.URL); m.Picture == "" {
			m.URL = x.URL
		}
		p.addLocked(f, m)
	case "typing_on":
		f.typingUntil = x.At.Add(typingFor)
		p.touchLocked()
	case "typing_off":
		f.typingUntil = time.Time{}
		p.touchLocked()
	}
}

// begin lets the phones post.
func (p *Phones) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = false
	p.touchLocked()
}

func (p *Phones) wake() {
	select {
	case p.work <- struct{}{}:
	default:
	}
}

// idle returns the phones that have something to post and nobody who does it.
// The caller does.
func (p *Phones) idle() []*phone {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*phone
	if p.waiting {
		return nil
	}
	for _, f := range p.list {
		if !f.busy && len(f.outbox) > 0 {
			f.busy = true
			list = append(list, f)
		}
	}
	return list
}

// empty posts what a phone has written, one after another: the platform keeps
// the order in which one user writes.
func (p *Phones) empty(ctx context.Context, f *phone) {
	for {
		p.mu.Lock()
		if len(f.outbox) == 0 {
			f.busy = false
			p.mu.Unlock()
			return
		}
		m := f.outbox[0]
		p.mu.Unlock()
		ok := p.hook.Deliver(ctx, p.event(f, m))
		p.mu.Lock()
		p.postedLocked(f, m, ok)
		p.mu.Unlock()
	}
}

// event is a message on its way to the webhook.
func (p *Phones) event(f *phone, m phoneMessage) *webhook.Post {
	h := webhook.Event{Page: f.page, User: f.user, At: p.api.now(), MID: p.mid(), Text: m.Text}
	var known []string // who must get something, as far as can be known
	switch {
	case m.start:
		h.Text, h.Payload, h.Title = "", webhook.GetStarted, m.Text
		known = []string{f.user}
	case m.quick:
		h.QuickReply = m.payload
	case m.payload != "":
		h.Text, h.Payload, h.Title = "", m.payload, m.Text
	case m.Picture != "":
		h.Pictures = []string{p.pictureURL(m.Picture)}
	}
	return &webhook.Post{
		Events:    []webhook.Event{h},
		Announced: []*ledger.Event{p.api.Announce(h.Page, h.MID, known, len(h.Pictures))},
	}
}

// mid makes a message id that ofPhones knows again.
func (p *Phones) mid() string {
	mid := string(wire.AppendMID(nil, p.seed, p.events.Add(1)))
	return phoneMark + mid[len(phoneMark):]
}

// postedLocked notes what became of a message.
func (p *Phones) postedLocked(f *phone, m phoneMessage, ok bool) {
	if len(f.outbox) > 0 && f.outbox[0].N == m.N { // else the phone has left meanwhile
		f.outbox = slices.Delete(f.outbox, 0, 1)
	}
	state, phase := phoneFailed, phoneNew
	if ok {
		state, phase = phoneSent, phoneJoined
	}
	if m.start && f.state == phoneJoining {
		f.state = phase
	}
	p.markLocked(f, m.N, state)
}
