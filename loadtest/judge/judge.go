// Package judge asks fakeapi, the independent judge, over its HTTP interface:
// it announces what must arrive, changes how the platform behaves, and reads
// the verdict. Every answer of a Judge is the fake's own; nothing is computed
// from what the system under test says of itself.
package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"chatclub/fakeapi/ledger"
)

// Judge is a client of one fakeapi. Make one with New. Safe for concurrent use.
type Judge struct {
	base   string
	client http.Client
}

// timeout bounds one question; the ledger of a million awaited ids takes 50 ms.
const timeout = 30 * time.Second

// New returns a judge at an address such as http://127.0.0.1:8090. transport
// may be fakeapi's own, in process; nil: an HTTP client's.
func New(base string, transport http.RoundTripper) (*Judge, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("ledger: not an address such as http://127.0.0.1:8090")
	}
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second}
	}
	return &Judge{base: strings.TrimRight(base, "/"), client: http.Client{Transport: transport, Timeout: timeout}}, nil
}

// Event is something that must arrive: one or more messages.
type Event struct {
	Page  string    `json:"page"`
	Group string    `json:"group,omitempty"` // whose latencies are kept together
	Due   time.Time `json:"due"`             // when it was meant to happen: latencies count from here
	Key   string    `json:"key,omitempty"`   // for Answered; empty: it is answered at once
	IDs   []ID      `json:"ids"`
}

// ID is one message and who gets it.
type ID struct {
	ID string `json:"id"`
	To string `json:"to,omitempty"`
}

// Announce says what must arrive from now on. The order of events is the order
// in which their copies to one recipient must arrive.
func (j *Judge) Announce(ctx context.Context, events ...Event) error {
	return j.post(ctx, "/ledger/announce", map[string]any{"events": events}, nil)
}

// Answered says that the system has taken the events announced with these keys.
func (j *Judge) Answered(ctx context.Context, keys ...string) error {
	return j.post(ctx, "/ledger/answered", map[string]any{"keys": keys}, nil)
}

// maxIDs keeps a request below the fake's bound of 8 MiB.
const maxIDs = 10_000

// Excuse says that ids need not come, and returns how many of them were awaited.
func (j *Judge) Excuse(ctx context.Context, ids ...string) (int, error) {
	total := 0
	for len(ids) > 0 {
		n := min(len(ids), maxIDs)
		var out struct{ Excused int }
		if err := j.post(ctx, "/ledger/excuse", map[string]any{"ids": ids[:n]}, &out); err != nil {
			return total, err
		}
		total += out.Excused
		ids = ids[n:]
	}
	return total, nil
}

// Control lays an object over the platform's settings.
func (j *Judge) Control(ctx context.Context, patch any) error {
	return j.post(ctx, "/control", patch, nil)
}

// Settings are the platform's, as the JSON object that Control changes.
func (j *Judge) Settings(ctx context.Context) (map[string]any, error) {
	var s map[string]any
	err := j.get(ctx, "/control", &s)
	return s, err
}

// Now is the platform's clock; zero if it does not tell.
func (j *Judge) Now(ctx context.Context) (time.Time, error) {
	r, err := j.report(ctx, "", 0)
	return r.Now, err
}

// Totals are the sums of all pages.
func (j *Judge) Totals(ctx context.Context) (ledger.Counts, error) {
	r, err := j.report(ctx, "", 0)
	return r.Totals, err
}

// Seconds are the active ones among the last so many: of a page, or of all
// pages together where page is empty.
func (j *Judge) Seconds(ctx context.Context, page string, seconds int) ([]ledger.Second, error) {
	r, err := j.report(ctx, page, seconds)
	switch {
	case page == "":
		return r.Series, err
	case len(r.Pages) == 0: // it has no account yet
		return nil, err
	}
	return r.Pages[0].Series, err
}

// Pages are the ledger's totals and the age of the oldest awaited id, with every
// page. Each has its active ones among the last so many seconds.
func (j *Judge) Pages(ctx context.Context, seconds int) (ledger.Report, error) {
	q := url.Values{"pages": {strconv.Itoa(maxPages)}, "seconds": {strconv.Itoa(seconds)}}
	var r ledger.Report
	err := j.get(ctx, "/ledger?"+q.Encode(), &r)
	return r, err
}

// maxPages is more than any run has.
const maxPages = 1_000_000

func (j *Judge) report(ctx context.Context, page string, seconds int) (ledger.Report, error) {
	pages := "0"
	if page != "" {
		pages = "1"
	}
	q := url.Values{"page": {page}, "pages": {pages}, "seconds": {strconv.Itoa(seconds)}}
	var r ledger.Report
	err := j.get(ctx, "/ledger?"+q.Encode(), &r)
	return r, err
}

// Group is what was announced under one name, with its latencies in µs from
// when it was due.
type Group struct {
	ledger.GroupReport
	Copies  *hdrhistogram.Histogram // of each message that was accepted
	Whole   *hdrhistogram.Histogram // of each event whose every message was accepted
	Waiting *hdrhistogram.Histogram // so far, of each message that is awaited
}

// Groups are all groups by name.
func (j *Judge) Groups(ctx context.Context) (map[string]Group, error) {
	var in struct{ Groups []ledger.GroupReport }
	if err := j.get(ctx, "/ledger/groups", &in); err != nil {
		return nil, err
	}
	groups := make(map[string]Group, len(in.Groups))
	for _, r := range in.Groups {
		g := Group{GroupReport: r}
		for _, h := range []struct {
			bins []ledger.Bin
			to   **hdrhistogram.Histogram
		}{{r.Copies, &g.Copies}, {r.Whole, &g.Whole}, {r.Waiting, &g.Waiting}} {
			*h.to = hdrhistogram.New(1, int64(2*time.Hour/time.Microsecond), 3)
			for _, b := range h.bins {
				if err := (*h.to).RecordValues(b.Micros, b.Count); err != nil {
					return nil, fmt.Errorf("histogram of group %q: %w", r.Group, err)
				}
			}
		}
		groups[r.Group] = g
	}
	return groups, nil
}

func (j *Judge) post(ctx context.Context, path string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("judge %s: %w", path, err)
	}
	return j.do(ctx, http.MethodPost, path, bytes.NewReader(b), out)
}

func (j *Judge) get(ctx context.Context, path string, out any) error {
	return j.do(ctx, http.MethodGet, path, http.NoBody, out)
}

func (j *Judge) do(ctx context.Context, method, path string, body io.Reader, out any) (err error) {
	req, err := http.NewRequestWithContext(ctx, method, j.base+path, body)
	if err != nil {
		return fmt.Errorf("judge %s: %w", path, err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := j.client.Do(req)
	if err != nil {
		return fmt.Errorf("judge %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return fmt.Errorf("judge %s: answer %d: %s", path, resp.StatusCode, bytes.TrimSpace(text))
	}
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("judge %s: %w", path, err)
	}
	return nil
}
