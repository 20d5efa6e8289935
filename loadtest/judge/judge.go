// Package judge asks fakeapi, the independent judge, over its HTTP interface:
// it announces what must arrive, changes how the platform behaves, and reads
// the verdict. Every answer of a Judge is the fake's own; nothing is computed
// from what the system under test says of itself.
package judge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"chatclub/fakeapi"
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

// Settings are the platform's.
func (j *Judge) Settings(ctx context.Context) (s fakeapi.Settings, err error) {
	err = j.get(ctx, "/control", &s)
	return s, err
}

// Totals are the sums of all pages.
func (j *Judge) Totals(ctx context.Context) (ledger.Counts, error) {
	r, err := j.report(ctx, "", 0, 0)
	return r.Totals, err
}

// Seconds are the active ones among the last so many: of a page, or of all
// pages together where page is empty.
func (j *Judge) Seconds(ctx context.Context, page string, seconds int) ([]ledger.Second, error) {
	r, err := j.report(ctx, page, min(1, len(page)), seconds)
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
	const all = 1_000_000 // more than any run has
	return j.report(ctx, "", all, seconds)
}

// report is of one page, or of so many pages where page is empty.
func (j *Judge) report(ctx context.Context, page string, pages, seconds int) (r ledger.Report, err error) {
	q := url.Values{"page": {page}, "pages": {strconv.Itoa(pages)}, "seconds": {strconv.Itoa(seconds)}}
	err = j.get(ctx, "/ledger?"+q.Encode(), &r)
	return r, err
}

// Groups are all groups by name.
func (j *Judge) Groups(ctx context.Context) (map[string]ledger.GroupReport, error) {
	var in struct{ Groups []ledger.GroupReport }
	err := j.get(ctx, "/ledger/groups", &in)
	groups := make(map[string]ledger.GroupReport, len(in.Groups))
	for _, g := range in.Groups {
		groups[g.Group] = g
	}
	return groups, err
}

// Latencies is a histogram: the number of messages with each latency, ascending.
type Latencies []ledger.Bin

// Merge adds latencies up.
func Merge(lists ...[]ledger.Bin) Latencies {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b ledger.Bin) int { return cmp.Compare(a.Micros, b.Micros) })
	return all
}

// Within counts those that are not above a time.
func (l Latencies) Within(d time.Duration) (n int64) {
	for _, b := range l {
		if b.Micros <= d.Microseconds() {
			n += b.Count
		}
	}
	return n
}

// Quantile is the latency that a share of them does not exceed; 0 of none.
func (l Latencies) Quantile(share float64) (d time.Duration) {
	const forever = time.Hour * 24 * 365
	left := int64(math.Ceil(share * float64(l.Within(forever))))
	for _, b := range l {
		if left > 0 {
			d = time.Duration(b.Micros) * time.Microsecond
		}
		left -= b.Count
	}
	return d
}

func (j *Judge) post(ctx context.Context, path string, in, out any) error {
	b, err := json.Marshal(in)
	return errors.Join(err, j.do(ctx, http.MethodPost, path, bytes.NewReader(b), out))
}

func (j *Judge) get(ctx context.Context, path string, out any) error {
	return j.do(ctx, http.MethodGet, path, http.NoBody, out)
}

func (j *Judge) do(ctx context.Context, method, path string, body io.Reader, out any) (err error) {
	req, err := http.NewRequestWithContext(ctx, method, j.base+path, body)
	if err != nil {
		return fmt.Errorf("judge %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
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
