package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"chatclub/loadtest/fleet"
	"chatclub/loadtest/load"
)

// otherApp is another app that calls on one of our pages: it takes a part of
// the page's limit, and does not care what is refused.
type otherApp struct {
	Foreign
	platform fleet.Platform
	client   *http.Client
	calls    sync.WaitGroup

	mu       sync.Mutex
	begin    time.Time
	accepted []int64 // by tenths of a second since begin
	refused  []int64
}

func newOtherApp(f Foreign, p fleet.Platform, begin time.Time) *otherApp {
	transport := p.Transport
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: 30 * time.Second}
	}
	return &otherApp{Foreign: f, platform: p, begin: begin, client: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
}

func (f *otherApp) stream() load.Stream {
	return load.Stream{Schedule: load.Schedule{Segments: f.Segments}, Do: func(ctx context.Context, due []time.Time) error {
		for range due {
			f.calls.Go(func() { f.call(context.WithoutCancel(ctx)) })
		}
		return nil
	}}
}

// call makes one call. One that fails otherwise than by the limit is not
// counted: it took nothing of it.
func (f *otherApp) call(ctx context.Context) {
	at := int(time.Since(f.begin) / tenth)
	status, err := f.send(ctx)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if status == http.StatusOK {
		f.accepted = count(f.accepted, at)
	} else {
		f.refused = count(f.refused, at)
	}
}

func (f *otherApp) send(ctx context.Context) (_ int, err error) {
	const body = `{"recipient":{"id":"42"},"messaging_type":"UPDATE","message":{"text":"from another app"}}`
	page := f.Page
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.platform.URL+"/v23.0/"+page+"/messages", strings.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("call as another app: %w", err)
	}
	req.Header.Set("Authorization", "Bearer token-"+page)
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// counts are copies of the tenths.
func (f *otherApp) counts() (accepted, refused []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int64(nil), f.accepted...), append([]int64(nil), f.refused...)
}

// tenth is the finest time that calls are counted by.
const tenth = 100 * time.Millisecond

func count(cells []int64, at int) []int64 {
	if at >= len(cells) {
		cells = append(cells, make([]int64, at+1-len(cells))...)
	}
	cells[at]++
	return cells
}
