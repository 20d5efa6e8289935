package web

// maxListed is the number of pages that are offered for a new phone. A reader would not
// look through more.
const maxListed = 100

// report is the phones as JSON, or the changes to them.
type report struct {
	Rev     uint64        `json:"rev"`
	Full    bool          `json:"full"` // messages holds all that are kept, not only changed ones
	Waiting bool          `json:"waiting"`
	Pages   []string      `json:"pages,omitempty"` // with Full
	Max     int           `json:"max"`
	Phones  []phoneReport `json:"phones"` // all of them
}

type phoneReport struct {
	ID       string    `json:"id"`
	Page     string    `json:"page"`
	User     string    `json:"user"`
	State    joinState `json:"state"`
	Typing   bool      `json:"typing"`
	First    int       `json:"first"` // number of the oldest message kept
	Messages []message `json:"messages"`
}

// report returns the changes after revision since, everything if that is 0, and
// a channel that is closed at the next change.
func (p *phones) report(since uint64) (report, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := report{
		Rev: p.rev, Full: since == 0, Waiting: p.waiting, Max: maxPhones, Phones: make([]phoneReport, 0, len(p.list)),
	}
	if r.Full {
		r.Pages = p.cfg.Pages[:min(len(p.cfg.Pages), maxListed)]
	}
	now := p.cfg.API.Now()
	for _, f := range p.list {
		one := phoneReport{
			ID: f.id, Page: f.page, User: f.user, State: f.state,
			Typing: now.Before(f.typingUntil), First: f.first(), Messages: []message{},
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

// Phones returns the phones as JSON has them, or the changes after revision since,
// which is 0 at first. With it come the revision now, and a channel that is closed at
// the next change; nil where there are no phones.
func (s *Site) Phones(since uint64) (changes any, now uint64, changed <-chan struct{}) {
	if s.phones == nil {
		return report{Phones: []phoneReport{}}, max(1, since), nil
	}
	r, changed := s.phones.report(since)
	return r, r.Rev, changed
}
