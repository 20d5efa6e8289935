package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/limit"
	"chatclub/fakeapi/users"
	"chatclub/fakeapi/webhook"
	"chatclub/internal/service"
)

// settings are those of the fake platform and its users.
type settings struct {
	HTTPAddr string `env:"HTTP_ADDR" envDefault:":8090" doc:"Address of the Send API, the ledger, the control interface and the page."`

	WebhookURL      string         `env:"WEBHOOK_URL" doc:"Where the simulated users' events are posted; without it there are no users."`
	AppSecret       service.Secret `env:"APP_SECRET" doc:"Key that signs the webhooks; the same as the webhook program's. Required with WEBHOOK_URL."`
	Pages           int            `env:"PAGES" envDefault:"2" doc:"Simulated pages."`
	FirstPage       int            `env:"FIRST_PAGE" envDefault:"0" doc:"Number of the first page; 0: one from the clock, so that no two runs have the same pages and users."`
	Instagram       bool           `env:"INSTAGRAM" envDefault:"false" doc:"The pages are professional accounts of Instagram: webhooks of the object instagram, and texts of 1,000 bytes at most."`
	Rooms           int            `env:"ROOMS" envDefault:"1" doc:"Rooms per page. With more than one USERS must equal ROOM_CAPACITY of core."`
	Users           int            `env:"USERS" envDefault:"100" doc:"Users per room; 0: none, but phones on the page, for a bot that has no rooms."`
	JoinParallel    int            `env:"JOIN_PARALLEL" envDefault:"1" doc:"Users of one room who join at the same time."`
	JoinTimeout     time.Duration  `env:"JOIN_TIMEOUT" envDefault:"5m" doc:"How long a user waits for the webhook and then for the welcome."`
	EventsPerSecond float64        `env:"EVENTS_PER_SECOND" envDefault:"20" doc:"Messages that all users together write."`
	Duration        time.Duration  `env:"DURATION" envDefault:"0s" doc:"How long they write after all have joined; 0s: until the program ends."`
	SettleTimeout   time.Duration  `env:"SETTLE_TIMEOUT" envDefault:"1m" doc:"How long no copy may arrive, after DURATION, before the rest is lost."`
	Exit            bool           `env:"EXIT" envDefault:"false" doc:"End after DURATION, with 1 if a copy is lost, duplicated, unexpected or without an id, or an event was not taken."`
	Duplicates      float64        `env:"DUPLICATES" envDefault:"0" doc:"Share of webhooks that come twice."`
	Batches         float64        `env:"BATCHES" envDefault:"0" doc:"Share of webhooks that carry several events."`
	OutOfOrder      float64        `env:"OUT_OF_ORDER" envDefault:"0" doc:"Share of webhooks that come up to a second late."`
	Pictures        float64        `env:"PICTURES" envDefault:"0" doc:"Share of messages with one to three pictures, half of them without text."`
	Receipts        bool           `env:"RECEIPTS" envDefault:"false" doc:"Post echo, delivery and read events for what was accepted."`
	BadRecipients   float64        `env:"BAD_RECIPIENTS" envDefault:"0" doc:"Share of users who cannot be sent to once all have joined."`

	PagesFileOut string `env:"PAGES_FILE_OUT" doc:"File to write with the pages' access tokens, as the dispatcher's PAGES_FILE."`

	Algorithm    algorithm       `env:"LIMIT_ALGORITHM" envDefault:"fixed-window" doc:"Rule of the limits per page."`
	LimitText    int             `env:"LIMIT_TEXT" envDefault:"300" doc:"Sends of text per second and page."`
	LimitMedia   int             `env:"LIMIT_MEDIA" envDefault:"10" doc:"Sends of audio and video per second and page."`
	UsageHeaders bool            `env:"USAGE_HEADERS" envDefault:"false" doc:"The usage headers of every answer tell the limits per second too, not only the quota of 24 h: X-Business-Use-Case-Usage those of the page, X-App-Usage that of the app."`
	RetryAfter   retryAfter      `env:"RETRY_AFTER" envDefault:"none" doc:"Form of the header Retry-After in throttled answers; the platform has none."`
	CountRefused bool            `env:"LIMIT_COUNT_REFUSED" envDefault:"false" doc:"Refused sends count against the limits too."`
	Latency      fakeapi.Latency `env:"LATENCY" envDefault:"lognormal:700ms,1.9s" doc:"How long an answer takes (lognormal has a median and a 99th percentile, load a rate and the latency up to it)."`
	ServerErrors float64         `env:"FAULT_SERVER_ERROR" envDefault:"0" doc:"Share of sends that get a 500 and are not accepted."`
	ResetBefore  float64         `env:"FAULT_RESET_BEFORE" envDefault:"0" doc:"Share of sends whose connection is lost before they are accepted."`
	ResetAfter   float64         `env:"FAULT_RESET_AFTER" envDefault:"0" doc:"Share of sends whose connection is lost after they are accepted."`
	SentYet      float64         `env:"FAULT_SENT_YET" envDefault:"0" doc:"Share of sends that are accepted and answered with error 1/1357046."`
	LedgerKeep   time.Duration   `env:"LEDGER_KEEP" envDefault:"1h" doc:"How long the ledger remembers ids that were accepted; 0s: for ever. One that comes again later is unexpected."`
	Seed         uint64          `env:"SEED" envDefault:"1" doc:"Of everything random."`

	ReportEvery time.Duration `env:"REPORT_EVERY" envDefault:"10s" doc:"How often the ledger's totals are logged; 0s: never."`
	Admin       service.AdminSettings
	Log         service.LogSettings
}

// About returns a description of the program, for its help.
func (settings) About() string {
	return "fakeapi is a fake of the Messenger Platform: a throttled Send API, users who chat\nthrough the system under test, and a ledger of what was lost or duplicated: GET /ledger."
}

// algorithm is a limit.Algorithm that describes itself.
type algorithm string

// Describe returns what its values look like.
func (algorithm) Describe() string {
	var names []string
	for _, a := range limit.Algorithms() {
		names = append(names, string(a))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *algorithm) UnmarshalText(b []byte) error {
	if !slices.Contains(limit.Algorithms(), limit.Algorithm(b)) {
		return fmt.Errorf("%.40q is not %s", b, a.Describe())
	}
	*a = algorithm(b)
	return nil
}

// retryAfter is a fakeapi.RetryAfter that describes itself.
type retryAfter fakeapi.RetryAfter

// Describe returns what its values look like.
func (retryAfter) Describe() string { return "none, seconds or date" }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *retryAfter) UnmarshalText(b []byte) error {
	form := fakeapi.RetryAfter(b)
	if form == "none" {
		form = fakeapi.NoRetryAfter
	} else if form != fakeapi.Seconds && form != fakeapi.Date {
		return fmt.Errorf("%.40q is not %s", b, r.Describe())
	}
	*r = retryAfter(form)
	return nil
}

// Validate returns an error that names every fault.
func (s settings) Validate() error {
	faults := []error{
		service.CheckAddr("HTTP_ADDR", s.HTTPAddr),
		service.CheckRange("PAGES", s.Pages, 1, 1_000_000),
		service.CheckRange("FIRST_PAGE", s.FirstPage, 0, 1_000_000_000),
		service.CheckRange("ROOMS", s.Rooms, 1, 10_000),
		service.CheckRange("USERS", s.Users, 0, 1000),
		service.CheckRange("JOIN_PARALLEL", s.JoinParallel, 1, 1000),
		service.CheckRange("LIMIT_TEXT", s.LimitText, 1, 1_000_000),
		service.CheckRange("LIMIT_MEDIA", s.LimitMedia, 1, 1_000_000),
		service.CheckDuration("JOIN_TIMEOUT", s.JoinTimeout, time.Second, time.Hour),
		service.CheckDuration("DURATION", s.Duration, 0, 1000*time.Hour),
		service.CheckDuration("SETTLE_TIMEOUT", s.SettleTimeout, 0, 24*time.Hour),
		service.CheckDuration("LEDGER_KEEP", s.LedgerKeep, 0, 1000*time.Hour),
		service.CheckDuration("REPORT_EVERY", s.ReportEvery, 0, time.Hour),
		service.CheckRange("DUPLICATES", s.Duplicates, 0, 1),
		service.CheckRange("BATCHES", s.Batches, 0, 1),
		service.CheckRange("OUT_OF_ORDER", s.OutOfOrder, 0, 1),
		service.CheckRange("PICTURES", s.Pictures, 0, 1),
		service.CheckRange("BAD_RECIPIENTS", s.BadRecipients, 0, 1),
		service.CheckRange("FAULT_SERVER_ERROR", s.ServerErrors, 0, 1),
		service.CheckRange("FAULT_RESET_BEFORE", s.ResetBefore, 0, 1),
		service.CheckRange("FAULT_RESET_AFTER", s.ResetAfter, 0, 1),
		service.CheckRange("FAULT_SENT_YET", s.SentYet, 0, 1),
	}
	if !(s.EventsPerSecond > 0 && s.EventsPerSecond <= 1e6) {
		faults = append(faults, service.Faultf("EVENTS_PER_SECOND", "%g must be above 0 and at most 1e6", s.EventsPerSecond))
	}
	if s.WebhookURL != "" {
		faults = append(faults, service.CheckHTTPURL("WEBHOOK_URL", s.WebhookURL), service.CheckSet("APP_SECRET", s.AppSecret))
	}
	if s.Users == 1 {
		faults = append(faults, service.Faultf("USERS", "1 must be 0, or 2 to 1000"))
	}
	if s.Exit && (s.WebhookURL == "" || s.Duration == 0 || s.Users == 0) {
		faults = append(faults, service.Faultf("EXIT", "needs WEBHOOK_URL, DURATION and USERS"))
	}
	return errors.Join(faults...)
}

// platform returns the settings of the platform.
func (s settings) platform() *fakeapi.Settings {
	p := fakeapi.DefaultSettings()
	p.Text = fakeapi.Limit{Algorithm: limit.Algorithm(s.Algorithm), PerSecond: s.LimitText, CountRefused: s.CountRefused}
	p.Media = fakeapi.Limit{Algorithm: limit.Algorithm(s.Algorithm), PerSecond: s.LimitMedia, CountRefused: s.CountRefused}
	p.Instagram = s.Instagram
	p.UsageHeaders, p.RetryAfter = s.UsageHeaders, fakeapi.RetryAfter(s.RetryAfter)
	p.Latency = s.Latency
	p.Faults = fakeapi.Faults{
		ServerError: s.ServerErrors, ResetBefore: s.ResetBefore, ResetAfter: s.ResetAfter, SentYet: s.SentYet,
	}
	return &p
}

// webhook returns the settings of the webhook.
func (s settings) webhook(log *slog.Logger) webhook.Config {
	return webhook.Config{URL: s.WebhookURL, Secret: s.AppSecret.Reveal(), Log: log}
}

// users returns the settings of the users.
func (s settings) users(api *fakeapi.API, log *slog.Logger) users.Config {
	hook := s.webhook(log)
	hook.RetryFor = s.JoinTimeout
	return users.Config{
		API: api, Webhook: hook,
		Pages: s.Pages, FirstPage: s.FirstPage, Rooms: s.Rooms, Users: s.Users,
		JoinParallel: s.JoinParallel, JoinTimeout: s.JoinTimeout,
		EventsPerSecond: s.EventsPerSecond, Duplicates: s.Duplicates, Batches: s.Batches, OutOfOrder: s.OutOfOrder,
		Pictures: s.Pictures, Receipts: s.Receipts, BadRecipients: s.BadRecipients, Seed: s.Seed,
	}
}
