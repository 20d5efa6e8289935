package fakeapi

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"chatclub/fakeapi/ledger"
)

// Config of an API. The zero value is a platform with DefaultSettings.
type Config struct {
	Now       func() time.Time // default time.Now
	Seed      uint64           // of everything random
	AppSecret string           // with which appsecret_proof is checked; empty: none is right
	Settings  *Settings        // nil: DefaultSettings
	Seconds   int              // active seconds of history per page; default 600
	Keep      time.Duration    // see ledger.Config; default 0: for ever
	// Host is a name with dots under which Serve is asked. Others are refused,
	// because another site could have them; addresses and names without a dot never are.
	Host string
}

// API is the fake platform. New makes one. All methods are safe for concurrent
// use.
type API struct {
	cfg       Config
	ledger    *ledger.Ledger
	settings  liveSettings
	answers   answers
	app       app
	pages     pages
	calls     atomic.Uint64 // numbers the calls
	control   control
	observers observers
	users     userReports
	graph     graph
	extension atomic.Pointer[Extension] // nil: none
}

// New makes a platform.
func New(c Config) (*API, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := DefaultSettings()
	if c.Settings != nil {
		s = *c.Settings
	}
	a := &API{cfg: c, answers: newAnswers()}
	a.ledger = ledger.New(ledger.Config{Now: c.Now, Seconds: c.Seconds, Keep: c.Keep, Unannounced: a.isUnannounced})
	a.control.api = a
	a.settings.init(a.answers.catalogue)
	if err := a.Apply(s); err != nil {
		return nil, fmt.Errorf("new fake platform: %w", err)
	}
	return a, nil
}

// isUnannounced reports whether an id could not be announced: see ledger.Config.
func (a *API) isUnannounced(page, recipient, id string) bool {
	people := a.people()
	return people != nil && people.Concerns(recipient, id) || isBroadcast(page, recipient, id)
}

// isBroadcast reports whether an id is that of a broadcast's copy for the recipient:
// PAGE/broadcast-NAME/RECIPIENT, with or without /1, /2 … behind it. Operators start
// broadcasts, so nobody announces their copies: each is expected when it is accepted.
// Messenger's mids begin with m_.
func isBroadcast(page, recipient, id string) bool {
	rest, ok := strings.CutPrefix(id, page)
	if !ok {
		return false
	}
	if rest, ok = strings.CutPrefix(rest, "/broadcast-"); !ok {
		return false
	}
	_, to, _ := strings.Cut(rest, "/")
	to, _, _ = strings.Cut(to, "/")
	return to == recipient
}

// Now returns the platform's time.
func (a *API) Now() time.Time { return a.cfg.Now() }

// Ledger returns the ledger, which judges the sends.
func (a *API) Ledger() *ledger.Ledger { return a.ledger }

// MessageID returns the id that the system under test puts into the metadata of an
// event's copy for a recipient. By it the ids to expect follow from the event alone.
func (*API) MessageID(page, mid, recipient string) string {
	return page + "/" + mid + "/" + recipient
}

// Announce enters the copies of an event into the ledger: for each recipient a
// message of text, and one for each of the event's pictures. The text has the id
// of MessageID, the n-th picture that id and /n.
func (a *API) Announce(page, mid string, recipients []string, pictures int) *ledger.Event {
	ids := make([]ledger.Expected, 0, (1+pictures)*len(recipients))
	for _, to := range recipients {
		id := a.MessageID(page, mid, to)
		ids = append(ids, ledger.Expected{ID: id, Recipient: to})
		for n := 1; n <= pictures; n++ {
			ids = append(ids, ledger.Expected{ID: id + "/" + strconv.Itoa(n), Recipient: to})
		}
	}
	return a.ledger.Announce(page, ids...)
}

// Answers returns how often each error was answered. Codes that never were are
// left out.
func (a *API) Answers() map[Code]uint64 { return a.answers.given() }

// Reset empties the ledger and the counts of answers. It belongs between runs,
// when nothing is in flight. The users' own counts stay.
func (a *API) Reset() {
	a.ledger.Reset()
	a.control.waiting.Clear()
	a.answers.reset()
}

// Settings returns a copy of the settings in force.
func (a *API) Settings() Settings { return a.settings.load().clone() }

// Generation returns a number that grows with every change of the settings.
func (a *API) Generation() uint64 { return a.settings.load().generation }

// Apply puts a copy of s in force for every later call. Limits keep what they
// have counted where their algorithm stays the same.
func (a *API) Apply(s Settings) error {
	return a.settings.change(func(Settings) (Settings, bool, error) { return s, false, nil })
}

// Patch lays a JSON object over the settings in force. Fields that it does not
// name stay. Lists are replaced, maps are merged, and a page set to null is as
// all others again. Injections that it names begin to count.
func (a *API) Patch(patch []byte) error {
	return a.settings.change(func(s Settings) (Settings, bool, error) { return s.patched(patch) })
}

// IsInstagram reports whether the settings in force make a page an account of
// Instagram.
func (a *API) IsInstagram(page string) bool { return a.settings.load().IsInstagram(page) }

// BadRecipient reports whether the settings in force make the recipient one
// that always answers an error.
func (a *API) BadRecipient(page, to string) bool {
	return a.settings.load().badRecipient(a.cfg.Seed, page, to) != nil
}

// PageID returns the id of simulated page number n.
func PageID(n int) string { return strconv.Itoa(100_000_000_000_000 + n) }
