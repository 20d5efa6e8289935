package fakeapi

import (
	"math"
	"strings"
	"sync"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/limit"
)

// pages are the pages that were called: *page by id.
type pages struct{ sync.Map }

// get returns the state of a page that exists, and makes it at the first call.
func (p *pages) get(id string, accounts *ledger.Ledger) *page {
	one, ok := p.Load(id)
	if !ok {
		id = strings.Clone(id) // it may be part of a request's buffer
		one, _ = p.LoadOrStore(id, &page{id: id, account: accounts.Page(id)})
	}
	return one.(*page)
}

// page is the platform's state of one page.
type page struct {
	id      string
	account *ledger.Page

	mu         sync.Mutex
	generation uint64 // of the settings that the limiters below were made for
	limits     [2]limiterSlot
	quota      limiterSlot
	recipients map[string]int // calls in recipientSecond, while RecipientPerSecond is set

	recipientSecond int64 // Unix second
}

// limiterSlot is a limiter with the configuration that it was made from.
type limiterSlot struct {
	limit.Limiter
	config limit.Config

	extraSecond int64 // Unix second in which extraUsed calls passed by leniency
	extraUsed   int
	nextOther   time.Time // when another app makes its next call; zero: there is none
}

// takeOthers makes the calls that another app was due to make until now. What it was due
// to make more than a second ago is of no account.
func (s *limiterSlot) takeOthers(now time.Time, perSecond float64) {
	if perSecond <= 0 {
		s.nextOther = time.Time{}
		return
	}
	step := time.Duration(min(float64(time.Second)/perSecond, float64(math.MaxInt64/2))) // a smaller rate would overflow
	switch longAgo := now.Add(-time.Second); {
	case s.nextOther.IsZero():
		s.nextOther = now
	case s.nextOther.Before(longAgo):
		s.nextOther = longAgo
	case s.nextOther.After(now.Add(step)): // the rate was lower
		s.nextOther = now.Add(step)
	}
	for ; !s.nextOther.After(now); s.nextOther = s.nextOther.Add(step) {
		s.Allow(s.nextOther)
	}
}

// takeExtra uses up one of the share × limit refused calls of a second that
// pass, and reports whether one was left.
func (s *limiterSlot) takeExtra(second int64, share float64) bool {
	if s.extraSecond != second {
		s.extraSecond, s.extraUsed = second, 0
	}
	if float64(s.extraUsed+1) > share*float64(s.config.Limit) {
		return false
	}
	s.extraUsed++
	return true
}

// fit makes the slot's limiter follow the configuration. Where only the limit
// differs the limiter keeps what it has counted.
func (s *limiterSlot) fit(now time.Time, c limit.Config) {
	old := s.config
	s.config = c
	old.Limit = c.Limit
	if s.Limiter != nil && old == c {
		s.SetLimit(now, c.Limit)
		return
	}
	l, err := limit.New(c)
	if err != nil {
		// Settings.Validate has checked every part of c.
		l = nil
	}
	s.Limiter = l
}

// fitLocked makes the limiters follow the settings.
func (p *page) fitLocked(now time.Time, set *live) {
	if p.generation >= set.generation { // a call that began before the last change
		return
	}
	p.generation = set.generation
	own := set.Pages[p.id]
	if own == nil {
		own = &PageSettings{}
	}
	p.limits[ledger.Text].fit(now, set.Text.config(own.Text))
	p.limits[ledger.Media].fit(now, set.Media.config(own.Media))
	audience := set.Audience
	if own.Audience > 0 {
		audience = own.Audience
	}
	quota := min(set.QuotaPerPerson*audience, 10_000_000) // limit's maximum
	if quota == 0 {
		p.quota = limiterSlot{}
		return
	}
	p.quota.fit(now, limit.Config{Algorithm: limit.SlidingWindow, Limit: quota, Window: 24 * time.Hour})
}

// admit asks the page's limit for one call of the class.
func (p *page) admit(now time.Time, set *live, class ledger.Class, seed uint64) *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fitLocked(now, set)
	rule := set.Text
	if class == ledger.Media {
		rule = set.Media
	}
	p.limits[class].takeOthers(now, rule.OtherApp)
	if !p.limits[class].Allow(now) && !p.lenientLocked(now, rule, class, seed) {
		return errPageLimit
	}
	if p.quota.Limiter != nil && !p.quota.Allow(now) {
		return errQuota
	}
	return nil
}

// lenientLocked lets a refused call pass in a lenient second, and reports
// whether it did.
func (p *page) lenientLocked(now time.Time, rule Limit, class ledger.Class, seed uint64) bool {
	if rule.LenientSeconds == 0 || rule.LenientExtra == 0 {
		return false
	}
	d := newDice(seed^hashString(p.id), uint64(now.Unix())) //nolint:gosec // any number will do
	if !d.hit(rule.LenientSeconds) {
		return false
	}
	return p.limits[class].takeExtra(now.Unix(), rule.LenientExtra)
}

// admitRecipient asks the limit of one recipient, a fixed window of a second.
// All recipients are counted by the same clock, so a new second forgets them
// all, and the memory for them stays bounded.
func (p *page) admitRecipient(now time.Time, set *live, recipient string) *answer {
	if set.RecipientPerSecond == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if second := now.Unix(); second > p.recipientSecond || p.recipients == nil {
		p.recipientSecond, p.recipients = second, make(map[string]int)
	}
	if p.recipients[recipient] >= set.RecipientPerSecond {
		return errRecipientLimit
	}
	p.recipients[recipient]++
	return nil
}

// state returns the answer to every call of a page that is not active now.
func (set *live) state(id string, now time.Time) *answer {
	own := set.Pages[id]
	if own == nil || !own.Until.IsZero() && !now.Before(own.Until) {
		return nil
	}
	switch own.State {
	case Active:
		return nil
	case Revoked:
		return errRevoked
	case Restricted:
		return errRestricted
	case Disabled:
		return errBlocked
	}
	return nil
}
