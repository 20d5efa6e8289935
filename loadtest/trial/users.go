package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/fakeapi/webhook"
	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/loadtest/cases"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/load"
)

// Users join rooms and write in them: they post signed events as Messenger does, so
// that these go through the whole system. NewUsers makes them. Safe for concurrent
// use.
type Users struct {
	run    string // begins the ids
	judge  *judge.Judge
	client *webhook.Client

	seq   atomic.Int64
	lost  atomic.Int64 // events that the webhook never took
	posts sync.WaitGroup

	mu     sync.Mutex
	copies map[string][]string // of each event that was announced, by mid; nil: not kept
}

// maxPosts are unanswered at a time.
const maxPosts = 512

// NewUsers returns users of a webhook, who try an event for as long as patience says.
func NewUsers(url, secret, run string, j *judge.Judge, patience time.Duration) (*Users, error) {
	client, err := webhook.New(webhook.Config{URL: url, Secret: secret, RetryFor: patience, MaxInFlight: maxPosts})
	return &Users{client: client, judge: j, run: run}, err
}

// ids are the copies of an event.
func (u *Users) ids(mid string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.copies[mid]
}

// Undelivered returns the number of events that the webhook has not taken in time.
func (u *Users) Undelivered() int64 { return u.lost.Load() }

// Wait returns when every event was answered or given up.
func (u *Users) Wait() { u.posts.Wait() }

// Stream returns the load of the users of the n-th stream of a case.
func (u *Users) Stream(s cases.Stream, set cases.Setting, seed, n uint64) load.Stream {
	d := newSampler(s, set.Room, u.run, seed, n)
	slots := make(chan struct{}, maxPosts)
	return load.Stream{Schedule: d.schedule(set), Do: func(ctx context.Context, due []time.Time) error {
		for _, at := range due {
			page, from, to := d.draw()
			if err := u.post(ctx, slots, event{page: page, group: group(u.run, s.Group), from: from, due: at, text: "Hello everybody", to: to}); err != nil {
				return err
			}
		}
		return nil
	}}
}

// joinTimeout is the time limit of the welcomes to the members of one room of every page,
// all together.
const joinTimeout = 2 * time.Minute

// Join lets every member of every room tap "Get Started", one room of each page after
// another, so that the rooms hold whom the announcements say they hold. It returns
// when all have their welcomes.
func (u *Users) Join(ctx context.Context, streams []cases.Stream, members int) error {
	slots := make(chan struct{}, maxPosts)
	for room := 0; ; room++ {
		more := false
		for i, s := range streams {
			d := newSampler(s, members, u.run, 0, uint64(i)) // it draws nothing
			if room >= d.stream.People/members {
				continue
			}
			more = true
			for _, p := range s.Pages {
				for n := range members {
					id := d.user(p.ID, room*members+n)
					if err := u.post(ctx, slots, event{page: p.ID, from: id, due: time.Now(), to: []string{id}}); err != nil {
						return fmt.Errorf("let users join: %w", err)
					}
				}
			}
		}
		u.posts.Wait()
		if !more {
			return nil
		}
		pending, err := awaitNone(ctx, u.judge, joinTimeout)
		if err == nil && pending > 0 {
			err = fmt.Errorf("%d messages did not arrive within %v", pending, joinTimeout)
		}
		if err != nil {
			return fmt.Errorf("let users join: %w", err)
		}
	}
}

// lookEvery is the time between two looks at what is awaited.
const lookEvery = 250 * time.Millisecond

// awaitNone waits until nothing is awaited any more, so long at most, and returns how
// much still is.
func awaitNone(ctx context.Context, j *judge.Judge, longest time.Duration) (pending int64, err error) {
	for end := time.Now().Add(longest); ; {
		t, err := j.Totals(ctx)
		if err != nil || t.Pending == 0 || !time.Now().Before(end) || !backoff.Sleep(ctx, min(lookEvery, time.Until(end))) {
			return t.Pending, errors.Join(err, ctx.Err())
		}
	}
}

// event is an event on a page.
type event struct {
	page, group, from, text string // text: empty for "Get Started"
	due                     time.Time
	to                      []string
}

// post announces an event and posts it in the background, once a slot is free.
func (u *Users) post(ctx context.Context, slots chan struct{}, ev event) error {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	mid, err := u.announce(ctx, ev)
	if err != nil || ctx.Err() != nil {
		<-slots
		return errors.Join(err, ctx.Err(), excuse(ctx, u.judge, ev.announced(mid)))
	}
	u.posts.Go(func() {
		defer func() { <-slots }()
		u.deliver(ctx, mid, ev)
	})
	return nil
}

// announced is the event as the judge knows it.
func (ev event) announced(mid string) judge.Event {
	e := judge.Event{Page: ev.page, Group: ev.group, Due: ev.due, Key: mid}
	for _, to := range ev.to {
		e.IDs = append(e.IDs, judge.ID{ID: message.CopyID(ev.page, mid, to, 0), To: to})
	}
	return e
}

// announce enters an event, whatever becomes of ctx: else it could be entered,
// and neither posted nor excused.
func (u *Users) announce(ctx context.Context, ev event) (mid string, err error) {
	mid = fmt.Sprintf("m_%s.%d", u.run, u.seq.Add(1))
	e := ev.announced(mid)
	if u.copies != nil {
		ids := make([]string, len(e.IDs))
		for i := range ids {
			ids[i] = e.IDs[i].ID
		}
		u.mu.Lock()
		u.copies[mid] = ids
		u.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	return mid, u.judge.Announce(ctx, e)
}

// deliver posts an event, at least once, until it is answered 200 or ctx ends;
// one that never is need not arrive.
func (u *Users) deliver(ctx context.Context, mid string, ev event) {
	e := webhook.Event{Page: ev.page, User: ev.from, At: ev.due, MID: mid, Text: ev.text}
	if ev.text == "" {
		e.Payload, e.Title = webhook.GetStarted, "Get Started"
	}
	whole := context.WithoutCancel(ctx)
	if u.client.Deliver(ctx, &webhook.Post{Events: []webhook.Event{e}}) {
		_ = u.judge.Answered(whole, mid) // else its order is not judged
		return
	}
	u.lost.Add(1)
	_ = excuse(whole, u.judge, ev.announced(mid)) // else it counts as lost, which is not flattering
}
