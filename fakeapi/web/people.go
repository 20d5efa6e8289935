package web

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/wire"
)

// The phones' users have ids of 19 digits that begin with 2 or 3. Those of
// simulated users begin with 1, and the platform's real ones are shorter. The
// phones' message ids carry a mark.
const (
	firstUser = 2_000_000_000_000_000_000
	midMark   = "m_phone-"
)

// ids makes the phones' user and message ids. Another run on the same database
// has others.
type ids struct {
	seed          uint64
	users, events atomic.Uint64
}

func newIDs(now time.Time) *ids {
	return &ids{seed: wire.Mix(uint64(now.UnixNano()))}
}

// nextUser returns the number of the next user, counted from 1, and its id.
func (i *ids) nextUser() (n uint64, id string) {
	n = i.users.Add(1)
	return n, strconv.FormatUint(firstUser+wire.Mix(i.seed+n)%firstUser, 10)
}

// nextMID makes a message id that Concerns recognises.
func (i *ids) nextMID() string {
	mid := string(wire.AppendMID(nil, i.seed, i.events.Add(1)))
	return midMark + mid[len(midMark):]
}

func isPhone(user string) bool {
	if len(user) != 19 || user[0] != '2' && user[0] != '3' {
		return false
	}
	_, err := strconv.ParseUint(user, 10, 64)
	return err == nil
}

// Concerns implements fakeapi.People. It recognises a copy of a phone's message
// where the sender's ids contain the event's, as they do by default.
func (p *phones) Concerns(recipient, id string) bool {
	return isPhone(recipient) || strings.Contains(id, midMark)
}

// Left implements fakeapi.People.
func (p *phones) Left(page, recipient string) bool {
	if !isPhone(recipient) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.byUser[recipient]
	return f == nil || f.page != page || !f.isOnPage()
}

// deliver shows an accepted message on its phone.
func (p *phones) deliver(x fakeapi.Acceptance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.byUser[x.Recipient]
	if f == nil || f.page != x.Page {
		return
	}
	switch x.Action {
	case "":
		f.typingUntil = time.Time{}
		m := message{Text: x.Text, Buttons: x.Buttons}
		if m.Picture = pictureName(p.cfg.BaseURL, x.URL); m.Picture == "" {
			m.URL = x.URL
		}
		p.showLocked(f, m)
	case "typing_on":
		f.typingUntil = x.At.Add(typingFor)
		p.touchLocked()
	case "typing_off":
		f.typingUntil = time.Time{}
		p.touchLocked()
	}
}
