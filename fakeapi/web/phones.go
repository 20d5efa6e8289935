package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/webhook"
)

const (
	// maxPhones is the number of phones that fit beside one another on a large screen.
	maxPhones = 8
	// keptMessages of a phone are shown, some screens full of them.
	keptMessages = 100
	// maxOutbox bounds the messages of a phone that the system has not taken.
	maxOutbox = 20
	// typingFor is the time for which the platform shows "typing" after one typing_on.
	typingFor = 20 * time.Second
)

// phones are the users whom people play by hand. A phone's messages are posted to
// the webhook like every other user's events. Messages that the Send API accepts
// for a phone are shown on it. Sends to a phone that left, or was removed, are
// answered 551 until it taps "Get Started" again.
type phones struct {
	cfg  Config
	hook *webhook.Client
	ids  *ids
	work chan struct{} // holds one token while a phone may have something to post

	mu      sync.Mutex
	waiting bool // for Config.Ready
	list    []*phone
	byUser  map[string]*phone
	rev     uint64        // counts the changes
	changed chan struct{} // closed at the next change
}

func newPhones(c Config) (*phones, error) {
	c.Phones = cmp.Or(c.Phones, 3)
	c.BaseURL = cmp.Or(c.BaseURL, "http://localhost")
	c.Webhook.RetryFor = cmp.Or(c.Webhook.RetryFor, 30*time.Second)
	c.Webhook.Now, c.Webhook.MaxInFlight = c.API.Now, maxPhones
	var faults []error
	if len(c.Pages) == 0 {
		faults = append(faults, errors.New("Pages must be set"))
	}
	if c.Phones < 0 || c.Phones > maxPhones {
		faults = append(faults, fmt.Errorf("Phones %d must be 0 to %d", c.Phones, maxPhones))
	}
	hook, err := webhook.New(c.Webhook)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	p := &phones{
		cfg: c, hook: hook, ids: newIDs(c.API.Now()), work: make(chan struct{}, 1),
		rev: 1, waiting: c.Ready != nil, byUser: make(map[string]*phone), changed: make(chan struct{}),
	}
	for i := range c.Phones {
		page := c.Pages[0]
		if c.Quiet != "" && i == c.Phones-1 {
			page = c.Quiet
		}
		if _, err := p.add(page); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// refusal is the reason why a phone cannot do an action.
type refusal struct {
	status int // of HTTP
	reason string
}

func (r *refusal) Error() string { return r.reason }

// with calls do under the lock with the phone of that id.
func (p *phones) with(id string, do func(*phone) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.list {
		if f.id == id {
			return do(f)
		}
	}
	return &refusal{http.StatusNotFound, "there is no such phone"}
}

// add makes one more phone on a page and returns its id.
func (p *phones) add(page string) (string, error) {
	if !slices.Contains(p.cfg.Pages, page) {
		return "", &refusal{http.StatusBadRequest, "page is none of those that phones may write to"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) == maxPhones {
		return "", &refusal{http.StatusConflict, fmt.Sprintf("there are %d phones already", maxPhones)}
	}
	n, user := p.ids.nextUser()
	f := &phone{id: strconv.FormatUint(n, 10), page: page, user: user, state: notJoined, next: 1}
	p.list = append(p.list, f)
	p.byUser[f.user] = f
	p.touchLocked()
	return f.id, nil
}

// remove leaves the page, if the phone is on it, and throws the phone away.
func (p *phones) remove(id string) error {
	return p.with(id, func(f *phone) error {
		f.outbox = nil
		p.list = slices.DeleteFunc(slices.Clone(p.list), func(x *phone) bool { return x == f })
		delete(p.byUser, f.user)
		p.touchLocked()
		return nil
	})
}

// start taps "Get Started".
func (p *phones) start(id string) error {
	return p.with(id, func(f *phone) error {
		if f.isOnPage() {
			return &refusal{http.StatusConflict, "the phone has joined already"}
		}
		f.state = joining
		p.postLocked(f, message{Tap: true, Text: "Get Started", start: true})
		return nil
	})
}

// write sends a text or, when that is empty, one of the pictures.
func (p *phones) write(id, text, picture string) error {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	switch {
	case (text == "") == (picture == ""):
		return &refusal{http.StatusBadRequest, "either text or picture must be set"}
	case fakeapi.Units(text) > fakeapi.MaxText:
		return &refusal{http.StatusBadRequest, fmt.Sprintf("text must have at most %d characters", fakeapi.MaxText)}
	case picture != "" && !isPicture(picture):
		return &refusal{http.StatusBadRequest, "picture is none of the built-in ones"}
	}
	return p.with(id, func(f *phone) error {
		return p.sendLocked(f, message{Text: text, Picture: picture})
	})
}

// tap taps the b-th button, counted from 0, of the phone's message n. Quick
// replies are there until the next message, from either side; buttons stay.
func (p *phones) tap(id string, n, b int) error {
	return p.with(id, func(f *phone) error {
		i, kept := f.index(n)
		if !kept || b < 0 || b >= len(f.messages[i].Buttons) {
			return &refusal{http.StatusNotFound, "there is no such button"}
		}
		button := f.messages[i].Buttons[b]
		switch {
		case button.Quick && i < len(f.messages)-1:
			return &refusal{http.StatusConflict, "the quick reply is gone: a message came after it"}
		case button.Payload == "":
			return &refusal{http.StatusConflict, "the button opens an address, and phones load nothing from elsewhere"}
		}
		// A quick reply is a message of its title.
		return p.sendLocked(f, message{Tap: !button.Quick, quick: button.Quick, Text: button.Title, payload: button.Payload})
	})
}

// leave blocks the page: from now on the Send API answers 551.
func (p *phones) leave(id string) error {
	return p.with(id, func(f *phone) error {
		if f.state != joined {
			return &refusal{http.StatusConflict, "the phone has not joined"}
		}
		for _, m := range f.outbox {
			p.markLocked(f, m.N, failed)
		}
		f.outbox, f.typingUntil, f.state = nil, time.Time{}, left
		p.touchLocked()
		return nil
	})
}

// sendLocked shows and posts a message or a tap of a phone that has joined.
func (p *phones) sendLocked(f *phone, m message) error {
	switch {
	case f.state != joined:
		return &refusal{http.StatusConflict, "the phone must join first"}
	case len(f.outbox) >= maxOutbox:
		return &refusal{http.StatusConflict, "too much is still being sent"}
	}
	p.postLocked(f, m)
	return nil
}

// postLocked shows the phone's message or tap, and has it posted.
func (p *phones) postLocked(f *phone, m message) {
	m.State = sending
	f.outbox = append(f.outbox, p.showLocked(f, m))
	p.wake()
}

// showLocked puts a message at the end of the phone's conversation.
func (p *phones) showLocked(f *phone, m message) message {
	p.touchLocked()
	m.At, m.rev = p.cfg.API.Now(), p.rev
	return f.append(m)
}

// markLocked notes how far the phone's own message n is, if it is still kept.
func (p *phones) markLocked(f *phone, n int, s sendState) {
	i, kept := f.index(n)
	if !kept {
		return
	}
	p.touchLocked()
	f.messages[i].State, f.messages[i].rev = s, p.rev
}

// touchLocked notifies every stream that something changed.
func (p *phones) touchLocked() {
	p.rev++
	close(p.changed)
	p.changed = make(chan struct{})
}
