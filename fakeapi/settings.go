package fakeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"chatclub/fakeapi/limit"
)

// Settings is the platform's behaviour that can be changed while it runs, by
// API.Apply or `POST /control`. DefaultSettings returns the documented platform
// without faults.
type Settings struct {
	Text  Limit `json:"text"`  // per page
	Media Limit `json:"media"` // per page, for audio and video

	RecipientPerSecond int `json:"recipient_per_second"` // calls/s to one recipient, beyond it 613/2018338; 0: no limit
	AppPerSecond       int `json:"app_per_second"`       // calls/s of all pages, beyond it 4; 0: no limit

	// QuotaPerPerson × the page's audience calls pass in 24 h, beyond it 80006
	// (the platform's number is 200). 0: no limit.
	QuotaPerPerson int `json:"quota_per_person"`
	Audience       int `json:"audience"` // people a page may message

	// UsageHeaders puts the limits per second into the usage headers of every answer:
	// see call.hint. Without it they tell the quota of 24 h alone.
	UsageHeaders bool `json:"usage_headers"`
	// RetryAfter is the form of Retry-After in throttled answers. The platform
	// documents none.
	RetryAfter RetryAfter `json:"retry_after"`

	// Instagram makes the pages professional accounts of Instagram: their events are of
	// that object, and their texts shorter.
	Instagram bool `json:"instagram"`

	// RequireProof refuses calls without a right appsecret_proof, as an app may be set.
	RequireProof bool `json:"require_proof"`

	Block         Block                    `json:"block"`
	BadRecipients float64                  `json:"bad_recipients"` // share of recipients that always answer 10, 551 or 100
	Latency       Latency                  `json:"latency"`
	Faults        Faults                   `json:"faults"`
	Status        map[Code]int             `json:"status,omitempty"` // HTTP status of an error answer, where it is not the default
	Inject        []Inject                 `json:"inject,omitempty"`
	Pages         map[string]*PageSettings `json:"pages,omitempty"` // the pages that differ
}

// RetryAfter is a form of the header Retry-After.
type RetryAfter string

// The forms.
const (
	NoRetryAfter RetryAfter = ""
	Seconds      RetryAfter = "seconds" // 17
	Date         RetryAfter = "date"    // Wed, 21 Oct 2026 07:28:00 GMT
)

// Limit is a rate limit per page.
type Limit struct {
	Algorithm    limit.Algorithm `json:"algorithm"`
	PerSecond    int             `json:"per_second"`
	Burst        int             `json:"burst"` // buckets only; 0: the algorithm's default
	Phase        Duration        `json:"phase"` // windows only
	CountRefused bool            `json:"count_refused"`
	OtherApp     float64         `json:"other_app"` // calls a second of another app, at equal distances, which take a part of the limit
	// In the share LenientSeconds of all seconds LenientExtra × PerSecond calls
	// pass that the algorithm refused. The real limit has been seen to let some
	// more pass now and then.
	LenientSeconds float64 `json:"lenient_seconds"`
	LenientExtra   float64 `json:"lenient_extra"`
}

// Block stops the whole app with code 368 for a time when too many of its calls
// fail. The platform does so with an app that keeps exceeding its limits. The
// zero value never blocks.
type Block struct {
	ErrorRatio float64  `json:"error_ratio"` // of the calls in Window; 0: never
	MinCalls   int      `json:"min_calls"`   // in Window, before the ratio counts
	Window     Duration `json:"window"`      // default 1m
	For        Duration `json:"for"`         // default 1h
}

// Faults are probabilities per call, and one switch.
type Faults struct {
	ServerError float64 `json:"server_error"` // code 2 with HTTP 500, not accepted
	ResetBefore float64 `json:"reset_before"` // connection lost, not accepted
	ResetAfter  float64 `json:"reset_after"`  // accepted, connection lost before the answer
	Timeout     float64 `json:"timeout"`      // not accepted, and no answer for TimeoutFor; then the connection is lost
	SentYet     float64 `json:"sent_yet"`     // accepted, answered 1/1357046
	Swallow     float64 `json:"swallow"`      // answered 200, never delivered; its id is excused
	SlowBody    float64 `json:"slow_body"`    // the answer's body comes SlowBodyBy after its header
	NullItem    float64 `json:"null_item"`    // a batch item is judged like any other and answered null
	Refuse      bool    `json:"refuse"`       // every new connection is reset at once
	// RefuseUntil is Refuse that ends by itself, because a client without an open
	// connection could not switch Refuse off.
	RefuseUntil time.Time `json:"refuse_until,omitzero"`
	TimeoutFor  Duration  `json:"timeout_after"` // default 60s
	SlowBodyBy  Duration  `json:"slow_body_by"`  // default 2s
}

// refusing reports whether new connections are reset now.
func (f *Faults) refusing(now time.Time) bool { return f.Refuse || now.Before(f.RefuseUntil) }

// Inject answers calls with a code of the catalogue, or not at all.
type Inject struct {
	Code        Code     `json:"code"`
	Hang        Duration `json:"hang,omitempty"`      // in place of a code: not accepted, and no answer for so long; then the connection is lost
	Page        string   `json:"page,omitempty"`      // empty: any
	Recipient   string   `json:"recipient,omitempty"` // empty: any
	Probability float64  `json:"probability"`         // 0 stands for 1
	Count       int      `json:"count,omitempty"`     // how many times; 0: without end
	Regain      Duration `json:"regain,omitempty"`    // until the answer's scope is open again, as the hints tell it; it opens nothing
}

// PageState is the platform's state of a page.
type PageState string

// The states.
const (
	Active     PageState = ""           // sends are judged by the limits alone
	Revoked    PageState = "revoked"    // its token is no longer valid: 190/460
	Restricted PageState = "restricted" // the permission is lost: 10
	Disabled   PageState = "disabled"   // blocked for a time: 368
)

// PageSettings are the differences of one page.
type PageSettings struct {
	Text     int `json:"text,omitempty"`     // calls/s; 0: as on all pages
	Media    int `json:"media,omitempty"`    // calls/s; 0: as on all pages
	Audience int `json:"audience,omitempty"` // 0: as on all pages

	Instagram bool `json:"instagram,omitempty"` // as Settings.Instagram

	State PageState `json:"state,omitempty"`
	Until time.Time `json:"until,omitzero"` // when State ends by itself; zero: never
}

// DefaultSettings is the platform as it is known: 300 calls/s of text and 10 of
// audio and video per page, RealLatency, no faults. The fixed window is a guess:
// the real algorithm is not published.
func DefaultSettings() Settings {
	return Settings{
		Text:    Limit{Algorithm: limit.FixedWindow, PerSecond: 300},
		Media:   Limit{Algorithm: limit.FixedWindow, PerSecond: 10},
		Latency: RealLatency(),
	}
}

func (l Limit) config(perSecond int) limit.Config {
	if perSecond == 0 {
		perSecond = l.PerSecond
	}
	return limit.Config{
		Algorithm: l.Algorithm, Limit: perSecond, Burst: l.Burst,
		Phase: time.Duration(l.Phase), CountRefused: l.CountRefused,
	}
}

// Validate returns an error that names every fault of s.
func (s Settings) Validate() error {
	var faults []error
	bad := func(field string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", field, err))
		}
	}
	for _, l := range []struct {
		name  string
		limit Limit
	}{{"text", s.Text}, {"media", s.Media}} {
		bad(l.name, l.limit.config(0).Validate())
		bad(l.name+".other_app", upToMillion(l.limit.OtherApp))
		bad(l.name+".lenient_seconds", share(l.limit.LenientSeconds))
		bad(l.name+".lenient_extra", upToMillion(l.limit.LenientExtra))
	}
	for name, n := range map[string]int{
		"recipient_per_second": s.RecipientPerSecond, "app_per_second": s.AppPerSecond,
		"quota_per_person": s.QuotaPerPerson, "audience": s.Audience, "block.min_calls": s.Block.MinCalls,
	} {
		if n < 0 || n > 1_000_000 {
			bad(name, errors.New("must be 0 to 1000000"))
		}
	}
	for name, p := range s.probabilities() {
		bad(name, share(p))
	}
	for name, d := range map[string]Duration{
		"block.window": s.Block.Window, "block.for": s.Block.For,
		"faults.timeout_after": s.Faults.TimeoutFor, "faults.slow_body_by": s.Faults.SlowBodyBy,
	} {
		if d < 0 || time.Duration(d) > 48*time.Hour {
			bad(name, errors.New("must be 0 to 48h"))
		}
	}
	if s.RetryAfter != NoRetryAfter && s.RetryAfter != Seconds && s.RetryAfter != Date {
		bad("retry_after", fmt.Errorf("%.20q is none of seconds, date", s.RetryAfter))
	}
	s.checkAnswers(bad)
	for id, p := range s.Pages {
		bad(fmt.Sprintf("pages.%.40s", id), p.validate())
	}
	slices.SortFunc(faults, func(a, b error) int { // ranging over maps has no order
		return slices.Compare([]byte(a.Error()), []byte(b.Error()))
	})
	return errors.Join(faults...)
}

// checkAnswers names the faults of the settings that name error answers.
func (s Settings) checkAnswers(bad func(field string, err error)) {
	known := catalogue()
	for code, status := range s.Status {
		if known[code] == nil || status < 400 || status > 599 {
			bad("status", fmt.Errorf("%.20q: %d must be a known code and 400 to 599", code, status))
		}
	}
	for i, in := range s.Inject {
		switch {
		case in.Hang < 0 || time.Duration(in.Hang) > 48*time.Hour:
			bad(fmt.Sprintf("inject[%d].hang", i), errors.New("must be 0 to 48h"))
		case in.Hang > 0 && in.Code != "":
			bad(fmt.Sprintf("inject[%d].hang", i), errors.New("a call that hangs is not answered with a code"))
		case in.Hang == 0 && known[in.Code] == nil:
			bad(fmt.Sprintf("inject[%d].code", i), fmt.Errorf("%.20q is unknown", in.Code))
		}
		bad(fmt.Sprintf("inject[%d].probability", i), share(in.Probability))
		if in.Regain < 0 || time.Duration(in.Regain) > 48*time.Hour {
			bad(fmt.Sprintf("inject[%d].regain", i), errors.New("must be 0 to 48h"))
		}
		if in.Count < 0 {
			bad(fmt.Sprintf("inject[%d].count", i), errors.New("must not be negative"))
		}
	}
}

func (s Settings) probabilities() map[string]float64 {
	f := s.Faults
	return map[string]float64{
		"block.error_ratio": s.Block.ErrorRatio, "bad_recipients": s.BadRecipients,
		"faults.server_error": f.ServerError, "faults.reset_before": f.ResetBefore,
		"faults.reset_after": f.ResetAfter, "faults.timeout": f.Timeout, "faults.sent_yet": f.SentYet,
		"faults.swallow": f.Swallow, "faults.slow_body": f.SlowBody, "faults.null_item": f.NullItem,
	}
}

func (p *PageSettings) validate() error {
	if p == nil {
		return nil
	}
	for _, n := range []int{p.Text, p.Media, p.Audience} {
		if n < 0 || n > 1_000_000 {
			return errors.New("numbers must be 0 to 1000000")
		}
	}
	switch p.State {
	case Active, Revoked, Restricted, Disabled:
		return nil
	}
	return fmt.Errorf("state %.20q is none of revoked, restricted, disabled", p.State)
}

func share(p float64) error {
	if p >= 0 && p <= 1 {
		return nil
	}
	return errors.New("must be 0 to 1")
}

func upToMillion(f float64) error {
	if f >= 0 && f <= 1_000_000 {
		return nil
	}
	return errors.New("must be 0 to 1000000")
}

// patched returns s with the JSON object patch laid over it, and whether that names
// injections: see API.Patch. s is not changed.
func (s Settings) patched(patch []byte) (c Settings, injects bool, err error) {
	c = s.clone()
	var given struct{ Inject json.RawMessage }
	if injects = json.Unmarshal(patch, &given) == nil && given.Inject != nil; injects {
		c.Inject = nil // encoding/json would decode into the old elements, and keep the fields that the new ones leave out
	}
	if err := decodeStrict(patch, &c); err != nil {
		return Settings{}, false, fmt.Errorf("decode settings: %w", err)
	}
	return c, injects, nil
}

// TextLimit returns how many texts a page may send in a second.
func (s Settings) TextLimit(page string) int {
	if own := s.Pages[page]; own != nil && own.Text > 0 {
		return own.Text
	}
	return s.Text.PerSecond
}

// IsInstagram reports whether a page is an account of Instagram.
func (s Settings) IsInstagram(page string) bool {
	own := s.Pages[page]
	return s.Instagram || own != nil && own.Instagram
}

// clone returns a copy that shares nothing with s that can be changed.
func (s Settings) clone() Settings {
	s.Status = maps.Clone(s.Status)
	s.Inject = slices.Clone(s.Inject)
	if s.Pages == nil {
		return s
	}
	pages := make(map[string]*PageSettings, len(s.Pages))
	for id, p := range s.Pages {
		if p != nil { // a page set to null is as all others
			own := *p
			pages[id] = &own
		}
	}
	s.Pages = pages
	return s
}
