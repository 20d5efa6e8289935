// Package webhook posts events to a webhook as Messenger does. A body is
// signed, escaped as on the wire, and posted again until the webhook answers
// 200. A webhook that fails for 15 minutes is an alert: Messenger would write to
// the developer. After an hour it gets no more events: Messenger would
// unsubscribe the app.
//
// The ledger learns how each post ended. Events that the webhook never took are
// withdrawn. Copies of the others must keep the order in which their events were
// answered.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/wire"
)

// Config of a Client. URL and Secret must be set.
type Config struct {
	URL       string            // of the webhook
	Secret    string            // signs the bodies; never logged
	Transport http.RoundTripper // nil: one of its own
	Log       *slog.Logger      // of a webhook that keeps failing; nil: none
	Now       func() time.Time  // default time.Now

	Timeout          time.Duration // for one answer, default 5 s as Messenger's
	RetryFor         time.Duration // after the first attempt, default 1 minute
	AlertAfter       time.Duration // of failures without a success in between, default 15 minutes
	UnsubscribeAfter time.Duration // the same, default 1 hour
	MaxInFlight      int           // connections kept for the next posts, default 64
}

// Client posts to one webhook. New makes one. All methods are safe for
// concurrent use.
type Client struct {
	cfg    Config
	http   http.Client
	health health
	counts counters
}

// New makes a client. Its error names every fault of the configuration.
func New(c Config) (*Client, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new webhook client: %w", err)
	}
	return &Client{cfg: c, http: http.Client{
		Transport:     c.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (c Config) withDefaults() (Config, error) {
	var faults []error
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" {
		faults = append(faults, errors.New("URL must be an absolute address")) // it may hold credentials: not quoted
	}
	if c.Secret == "" {
		faults = append(faults, errors.New("Secret must be set"))
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.RetryFor = cmp.Or(c.RetryFor, time.Minute)
	c.AlertAfter = cmp.Or(c.AlertAfter, 15*time.Minute)
	c.UnsubscribeAfter = cmp.Or(c.UnsubscribeAfter, time.Hour)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 64)
	if c.Transport == nil {
		c.Transport = &http.Transport{
			MaxIdleConns: c.MaxInFlight, MaxIdleConnsPerHost: c.MaxInFlight,
			IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: false,
		}
	}
	return c, errors.Join(faults...)
}

// Post is one body on its way to the webhook. Its events are of one page.
type Post struct {
	Events    []Event
	Announced []*ledger.Event // by which the ledger expects their copies
	Split     bool            // each event is an entry of its own; otherwise they share one
	Instagram bool            // the page is an account of Instagram
}

// Withdraw takes back the announcements.
func (p *Post) Withdraw() {
	for _, e := range p.Announced {
		e.Withdraw()
	}
}

const (
	firstRetry = 100 * time.Millisecond // Messenger tries again at once, a few times
	maxRetry   = 5 * time.Second
)

// Deliver posts p until the webhook answers 200, with pauses of 0.1 s doubling
// to 5 s, and reports whether it did. It withdraws p when RetryFor is over, ctx
// has ended before an answer of 200 or the webhook is unsubscribed. An event that
// the system did not take need not arrive.
func (c *Client) Deliver(ctx context.Context, p *Post) bool {
	c.counts.events.Add(int64(len(p.Events)))
	for _, e := range p.Announced {
		e.Posting()
	}
	body := bodyOf(p, c.cfg.Now())
	giveUp := c.cfg.Now().Add(c.cfg.RetryFor)
	for pause := firstRetry; ; pause = min(2*pause, maxRetry) {
		if c.post(ctx, body) {
			for _, e := range p.Announced {
				e.Answered()
			}
			return true
		}
		late := c.cfg.Now().Add(pause).After(giveUp)
		if late || c.Unsubscribed() || !wire.Sleep(pause, ctx.Done()) {
			p.Withdraw()
			c.counts.undelivered.Add(int64(len(p.Events)))
			return false
		}
		c.counts.retries.Add(1)
	}
}

// Try posts p once and reports whether the answer was 200. It is for events
// from which nothing must follow: receipts, and repetitions of taken events.
func (c *Client) Try(ctx context.Context, p *Post) bool {
	return c.post(ctx, bodyOf(p, c.cfg.Now()))
}

// CloseIdleConnections closes the connections that wait for a next post.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// post posts a body once and reports whether the answer was 200. One that has begun
// is not ended by ctx: the webhook may have taken it.
func (c *Client) post(ctx context.Context, body []byte) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return false // New has parsed the address
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "facebookexternalua")
	sha2, legacy := sign(c.cfg.Secret, body)
	req.Header.Set("X-Hub-Signature-256", sha2)
	req.Header.Set("X-Hub-Signature", legacy)
	c.counts.posts.Add(1)
	resp, err := c.http.Do(req)
	if err != nil {
		c.note(false)
		return false
	}
	// Read to the end, so that the connection is used again.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	closeErr := resp.Body.Close()
	ok := resp.StatusCode == http.StatusOK && err == nil && closeErr == nil
	c.note(ok)
	return ok
}
