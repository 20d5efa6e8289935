package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/loadtest/judge"
)

// joinTimeout is how long the members of one room may take to get their
// welcomes, on all pages together.
const joinTimeout = 2 * time.Minute

// join lets every member of every room tap "Get Started", one room of each page
// after another, so that the rooms hold whom the announcements say they hold.
// It returns when all have their welcomes.
func (w *webhook) join(ctx context.Context, plan Plan) error {
	slots := make(chan struct{}, maxPosts)
	for room := 0; ; room++ {
		var posts sync.WaitGroup
		var faults []error
		more := false
		for i, s := range plan.Streams {
			d := newSampler(s, plan.Room, w.run, 0, uint64(i)) // it draws nothing
			if room >= d.stream.People/plan.Room {
				continue
			}
			more = true
			for _, p := range s.Pages {
				for n := range plan.Room {
					if ctx.Err() != nil {
						break
					}
					id := d.user(p.ID, room*plan.Room+n)
					ev := event{page: p.ID, from: id, due: time.Now(), to: []string{id}}
					mid, err := w.announce(ctx, ev)
					if err != nil {
						faults = append(faults, err)
						continue
					}
					slots <- struct{}{}
					posts.Go(func() {
						defer func() { <-slots }()
						w.deliver(ctx, mid, ev)
					})
				}
			}
		}
		posts.Wait()
		if err := errors.Join(faults...); err != nil {
			return fmt.Errorf("let users join: %w", err)
		}
		if !more {
			return nil
		}
		if err := awaitNone(ctx, w.judge, joinTimeout); err != nil {
			return fmt.Errorf("let users join: %w", err)
		}
	}
}

// awaitNone returns when nothing is awaited any more.
func awaitNone(ctx context.Context, j *judge.Judge, longest time.Duration) error {
	end := time.Now().Add(longest)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, err := j.Totals(ctx)
		switch {
		case err != nil:
			return err
		case t.Pending == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%d messages did not arrive within %v", t.Pending, longest)
		}
		backoff.Sleep(ctx, again(t.Pending))
	}
}

// again is how long to wait before the ledger is read again. It costs the fake
// a millisecond for each 20,000 awaited ids, and that is a part of what the
// run's figures call its costs: 5 % of a processor at most.
func again(awaited int64) time.Duration {
	return 200*time.Millisecond + time.Duration(max(0, awaited))*time.Microsecond
}
