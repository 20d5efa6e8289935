package trial

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"chatclub/loadtest/cases"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/load"
)

// otherApp is another app that calls on our hot page: it takes a part of the page's
// limit, and does not care what is refused.
type otherApp struct {
	page, url string
	segments  []load.Segment
	client    *http.Client
	calls     sync.WaitGroup

	mu       sync.Mutex
	began    time.Time
	accepted []int64 // by tenths of a second since began
	refused  int64
}

func newOtherApp(p cases.Part, platform fleet.Platform, began time.Time) *otherApp {
	transport := platform.Transport
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: 30 * time.Second}
	}
	quarter := p.Length / 4
	return &otherApp{
		page: p.Pages(cases.Hot)[0], url: platform.URL, began: began, client: &http.Client{Transport: transport, Timeout: 10 * time.Second},
		segments: []load.Segment{{For: quarter}, {Rate: p.Foreign * p.Limit, For: p.Length - quarter}},
	}
}

func (a *otherApp) stream() load.Stream {
	return load.Stream{Schedule: load.Schedule{Segments: a.segments}, Do: func(ctx context.Context, due []time.Time) error {
		for range due {
			a.calls.Go(func() { a.call(context.WithoutCancel(ctx)) })
		}
		return nil
	}}
}

// call makes one call. One that fails otherwise than by the limit is not
// counted: it took nothing of it.
func (a *otherApp) call(ctx context.Context) {
	at := int(time.Since(a.began) / tenth)
	status, err := a.send(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
	case status == http.StatusOK:
		for len(a.accepted) <= at {
			a.accepted = append(a.accepted, 0)
		}
		a.accepted[at]++
	default:
		a.refused++
	}
}

func (a *otherApp) send(ctx context.Context) (_ int, err error) {
	const body = `{"recipient":{"id":"42"},"messaging_type":"UPDATE","message":{"text":"from another app"}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v23.0/"+a.page+"/messages", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer token-"+a.page)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// counts are the accepted calls by tenths of a second, and all refused ones; none of
// no other app.
func (a *otherApp) counts() (accepted []int64, refused int64) {
	if a == nil {
		return nil, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]int64(nil), a.accepted...), a.refused
}
