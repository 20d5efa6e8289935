package fakeapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"chatclub/fakeapi/webhook"
)

// sayings hold what a careless system gets wrong: escapes, letters beyond
// ASCII and beyond the basic plane, line breaks, markup.
var sayings = []string{
	"Hello everybody",
	"Grüße aus Köln, wie geht's?",
	"100 % sure: 3 < 4 & 5 > 2",
	"write to me@example.org or see https://example.org/a?b=c",
	"日本語も大丈夫",
	"🎉👩‍👩‍👧 party tonight 🎉",
	"she said \"back\\slash\"\nand a second line",
	"ok",
}

// Chat lets random users write for the duration (0: until ctx ends), in open
// loop: events come at their times however slow the system is. It returns when
// every webhook is answered or given up; nil also when ctx ended.
func (s *Source) Chat(ctx context.Context, duration time.Duration) error {
	if err := s.spoil(); err != nil {
		return err
	}
	var posts sync.WaitGroup
	if s.cfg.Receipts {
		stop := s.receipts(ctx, &posts)
		defer posts.Wait()
		defer stop()
	}
	var under sync.WaitGroup
	defer under.Wait()
	rng := rand.New(rand.NewPCG(s.cfg.Seed, 1))
	begin := s.api.now()
	for i := 0; ; {
		after := time.Duration(float64(i) / s.cfg.EventsPerSecond * float64(time.Second))
		if duration > 0 && after >= duration {
			return nil
		}
		if sleep(ctx, begin.Add(after).Sub(s.api.now())) != nil {
			return nil
		}
		if s.hook.Unsubscribed() {
			return webhook.ErrUnsubscribed
		}
		n := 1
		if rng.Float64() < s.cfg.Batches {
			n = 2 + rng.IntN(4)
		}
		i += n
		s.say(ctx, rng, n, &under)
	}
}

// spoil makes the share of bad recipients that the configuration asks for.
func (s *Source) spoil() error {
	if s.cfg.BadRecipients == 0 {
		return nil
	}
	s.api.applying.Lock()
	defer s.api.applying.Unlock()
	settings := s.api.live.Load().Settings
	settings.BadRecipients = s.cfg.BadRecipients
	return s.api.applyLocked(settings)
}

// say lets n random users of one page write, in one webhook.
func (s *Source) say(ctx context.Context, rng *rand.Rand, n int, under *sync.WaitGroup) {
	// All draws first, so that what is drawn does not depend on what was
	// skipped.
	page := rng.IntN(s.cfg.Pages)
	list, users := make([]webhook.Event, n), make([]int, n)
	for k := range n {
		users[k] = s.writer(rng, page)
		list[k] = webhook.Event{Page: s.Page(page), User: s.User(page, users[k]), Text: sayings[rng.IntN(len(sayings))]}
		if s.cfg.Pictures > 0 && rng.Float64() < s.cfg.Pictures {
			addPictures(&list[k], rng)
		}
	}
	split := rng.IntN(2) == 0
	var late, again time.Duration
	if rng.Float64() < s.cfg.OutOfOrder {
		late = time.Duration(rng.Int64N(int64(time.Second)))
	}
	if rng.Float64() < s.cfg.Duplicates {
		again = 1 + time.Duration(rng.Int64N(int64(2*time.Second)))
	}
	select {
	case s.slots <- struct{}{}:
	default:
		s.count.skipped.Add(int64(n))
		return
	}
	w := &webhook.Post{Split: split}
	for k, h := range list {
		h.At, h.MID = s.api.now(), s.mid()
		s.api.announce(w, h, s.others(page, users[k]))
		if len(h.Pictures) > 0 {
			s.count.pictures.Add(1)
		}
	}
	under.Go(func() {
		defer func() { <-s.slots }()
		if sleep(ctx, late) != nil {
			w.Withdraw()
			return
		}
		if s.hook.Deliver(ctx, w) && again > 0 && sleep(ctx, again) == nil {
			s.count.repeats.Add(1)
			s.hook.Try(ctx, w)
		}
	})
}

// addPictures adds one to three pictures, and leaves out the text of every second
// message. Their addresses have what the wire escapes.
func addPictures(h *webhook.Event, rng *rand.Rand) {
	for range 1 + rng.IntN(3) {
		h.Pictures = append(h.Pictures, fmt.Sprintf("https://pictures.example/p/%d.png?size=1080&oh=a%%2Fb", rng.IntN(1_000_000)))
	}
	if rng.IntN(2) == 0 {
		h.Text = ""
	}
}

// writer draws a user of the page who is not a bad recipient: who blocked the
// page does not write to it.
func (s *Source) writer(rng *rand.Rand, page int) int {
	id := s.Page(page)
	users := s.cfg.Rooms * s.cfg.Users
	n := rng.IntN(users)
	for range users {
		if !s.api.BadRecipient(id, s.User(page, n)) {
			break
		}
		n = (n + 1) % users
	}
	return n
}
