package web

import (
	"context"
	"slices"
	"sync"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/webhook"
)

// run posts the phones' messages until ctx ends, and waits for its goroutines.
func (p *phones) run(ctx context.Context) {
	defer p.hook.CloseIdleConnections()
	var posts sync.WaitGroup
	defer posts.Wait()
	ready := p.cfg.Ready
	for {
		select {
		case <-ctx.Done():
			return
		case <-ready:
			ready = nil
			p.begin()
		case <-p.work:
		}
		for _, f := range p.claim() {
			posts.Go(func() { p.empty(ctx, f) })
		}
	}
}

// begin lets the phones post.
func (p *phones) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = false
	p.touchLocked()
}

// wake makes run claim the phones that have something to post.
func (p *phones) wake() {
	select {
	case p.work <- struct{}{}:
	default:
	}
}

// claim returns the phones that have something to post and no goroutine that
// does so. The caller starts one for each.
func (p *phones) claim() []*phone {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting {
		return nil
	}
	var list []*phone
	for _, f := range p.list {
		if !f.busy && len(f.outbox) > 0 {
			f.busy = true
			list = append(list, f)
		}
	}
	return list
}

// empty posts a phone's messages, one after another, because the platform keeps
// the order in which one user writes.
func (p *phones) empty(ctx context.Context, f *phone) {
	for {
		p.mu.Lock()
		if len(f.outbox) == 0 {
			f.busy = false
			p.mu.Unlock()
			return
		}
		m := f.outbox[0]
		p.mu.Unlock()
		ok := p.hook.Deliver(ctx, p.announce(f, m))
		p.mu.Lock()
		p.answeredLocked(f, m, ok)
		p.mu.Unlock()
	}
}

// announce makes the post of a message, and announces its copies as far as they
// can be known.
func (p *phones) announce(f *phone, m message) *webhook.Post {
	e := webhook.Event{Page: f.page, User: f.user, At: p.cfg.API.Now(), MID: p.ids.nextMID(), Text: m.Text}
	var recipients []string
	switch {
	case m.start:
		e.Text, e.Payload, e.Title = "", webhook.GetStarted, m.Text
		if !p.cfg.AnyBot {
			recipients = []string{f.user}
		}
	case m.quick:
		e.QuickReply = m.payload
	case m.payload != "":
		e.Text, e.Payload, e.Title = "", m.payload, m.Text
	case m.Picture != "":
		e.Pictures = []string{pictureURL(p.cfg.BaseURL, m.Picture)}
	}
	return &webhook.Post{
		Events:    []webhook.Event{e},
		Instagram: p.cfg.API.IsInstagram(f.page),
		Announced: []*ledger.Event{p.cfg.API.Announce(e.Page, e.MID, recipients, len(e.Pictures))},
	}
}

// answeredLocked notes whether the webhook took a message.
func (p *phones) answeredLocked(f *phone, m message, ok bool) {
	if len(f.outbox) > 0 && f.outbox[0].N == m.N { // else the phone has left meanwhile
		f.outbox = slices.Delete(f.outbox, 0, 1)
	}
	state, join := failed, notJoined
	if ok {
		state, join = sent, joined
	}
	if m.start && f.state == joining {
		f.state = join
	}
	p.markLocked(f, m.N, state)
}

// counts returns the counts of the phones' actions, for the platform's report.
func (p *phones) counts() fakeapi.UserCounts { return fakeapi.UserCounts{Counts: p.hook.Counts()} }
