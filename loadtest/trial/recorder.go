package trial

import (
	"context"
	"slices"
	"sync"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
)

// recorder is what the pages that are shown saw, by Unix seconds: the ledger
// keeps ten minutes of each page, and so it is asked in time. Use by one
// goroutine at a time.
type recorder struct {
	pages   []string // "": all together
	seconds map[string]map[int64]ledger.Second
	asked   time.Time
}

// askEvery leaves of the ten minutes enough for an answer that fails, and for
// the moment between the load and the wait after it.
const askEvery = 200 * time.Second

func newRecorder(pages []string, begin time.Time) *recorder {
	c := &recorder{pages: pages, seconds: make(map[string]map[int64]ledger.Second), asked: begin}
	for _, p := range pages {
		c.seconds[p] = make(map[int64]ledger.Second)
	}
	return c
}

// ask reads what happened since it was last asked. The latest second then was
// not over, and clocks may be apart by seconds.
func (t *trial) ask(ctx context.Context) error {
	const again = 10 * time.Second
	c, now := t.recorder, time.Now()
	for _, p := range c.pages {
		list, err := t.judge.Seconds(ctx, p, int(max(0, now.Sub(c.asked)).Seconds())+int(again.Seconds()))
		if err != nil {
			return err
		}
		for _, s := range list {
			c.seconds[p][s.Unix] = s
		}
	}
	c.asked = now
	return nil
}

// follow asks until ctx ends.
func (t *trial) follow(ctx context.Context) {
	for backoff.Sleep(ctx, askEvery) {
		_ = t.ask(ctx) // asked again later, and in the end by verdict, which reports the error
	}
}

// attend watches and follows until the returned function is called, which waits
// for both.
func (t *trial) attend(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watchers sync.WaitGroup
	watchers.Go(func() { t.watch(ctx) })
	watchers.Go(func() { t.follow(ctx) })
	return func() { cancel(); watchers.Wait() }
}

// mostFollowed bounds the hot pages that are asked for one by one.
const mostFollowed = 100

// followed are the pages whose seconds are read: those that are shown, and all
// hot ones, or all together where these are many.
func (p Plan) followed() []string {
	list, hot := slices.Clone(p.shown()), p.hot()
	if len(hot) > mostFollowed {
		hot = []string{""}
	}
	list = append(list, hot...)
	slices.Sort(list)
	return slices.Compact(list)
}

// hot are the pages that have more to send than their limit.
func (p Plan) hot() (ids []string) {
	for _, s := range p.Streams {
		if s.Group != Hot {
			continue
		}
		for _, page := range s.Pages {
			ids = append(ids, page.ID)
		}
	}
	return ids
}

// judged is what a page is judged by in a second: all its calls, or those with
// audio where the plan is about these.
func (t *trial) judged(s ledger.Second) (calls struct{ Accepted, Refused int64 }) {
	calls.Accepted, calls.Refused = int64(s.Media.Accepted), int64(s.Media.Refused)
	if !t.Plan.hotAudio() {
		calls.Accepted += int64(s.Text.Accepted)
		calls.Refused += int64(s.Text.Refused)
	}
	return calls
}

// calls are those that were accepted of a page, of all pages for "", by seconds
// of the run.
func (t *trial) calls(page string) []int64 {
	list := make([]int64, int(t.ran()/time.Second)+1)
	for unix, s := range t.recorder.seconds[page] {
		if i := unix - t.controls.begin.Unix(); i >= 0 && i < int64(len(list)) {
			list[i] = t.judged(s).Accepted
		}
	}
	return list
}

// shown are the pages of which a series is shown: the first hot ones, or all
// pages together where none is hot.
func (p Plan) shown() []string {
	ids := p.hot()
	if ids == nil {
		return []string{""}
	}
	return ids[:min(len(ids), shownPages)]
}

// shownPages bounds the pages of which each has a series of its own.
const shownPages = 4
