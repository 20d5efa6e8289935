package trial

import (
	"context"
	"sync"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
	"chatclub/internal/loadtest/judge"
)

// recorder is what the pages that are shown saw, by Unix seconds: the ledger
// keeps ten minutes of each page, and so it is asked in time. Use by one
// goroutine at a time.
type recorder struct {
	judge   *judge.Judge
	pages   []string // "": all together
	seconds map[string]map[int64]ledger.Second
	asked   time.Time
}

// askEvery leaves of the ten minutes enough for an answer that fails, and for
// the moment between the load and the wait after it.
const askEvery = 200 * time.Second

func newRecorder(j *judge.Judge, pages []string, begin time.Time) *recorder {
	c := &recorder{judge: j, pages: pages, seconds: make(map[string]map[int64]ledger.Second), asked: begin}
	for _, p := range pages {
		c.seconds[p] = make(map[int64]ledger.Second)
	}
	return c
}

// ask reads what happened since it was last asked. The latest second then was
// not over, and clocks may be apart by seconds.
func (c *recorder) ask(ctx context.Context) error {
	const again = 10 * time.Second
	now := time.Now()
	for _, p := range c.pages {
		list, err := c.judge.Seconds(ctx, p, int(max(0, now.Sub(c.asked)).Seconds())+int(again.Seconds()))
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
func (c *recorder) follow(ctx context.Context) {
	for backoff.Sleep(ctx, askEvery) {
		_ = c.ask(ctx) // asked again later, and in the end by verdict, which reports the error
	}
}

// attend watches and follows until the returned function is called, which waits
// for both.
func (t *trial) attend(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watchers sync.WaitGroup
	watchers.Go(func() { t.watch(ctx) })
	watchers.Go(func() { t.recorder.follow(ctx) })
	return func() { cancel(); watchers.Wait() }
}

// shown are the pages of which a series is shown: the first hot ones, or all
// pages together where none is hot.
func (p Plan) shown() []string {
	var ids []string
	for _, s := range p.Streams {
		for _, page := range s.Pages {
			if s.Group == Hot && len(ids) < shownPages {
				ids = append(ids, page.ID)
			}
		}
	}
	if ids == nil {
		return []string{""}
	}
	return ids
}

// shownPages bounds the pages of which each has a series of its own.
const shownPages = 4
