package users

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"chatclub/fakeapi/webhook"
	"chatclub/fakeapi/wire"
)

// texts hold characters that a careless system gets wrong: escapes, letters
// beyond ASCII and beyond the basic plane, line breaks, markup.
var texts = []string{
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
// every webhook is answered or given up, and returns nil also when ctx ended.
func (u *Users) Chat(ctx context.Context, duration time.Duration) error {
	if err := u.blockRecipients(); err != nil {
		return err
	}
	var receipts sync.WaitGroup
	if u.cfg.Receipts {
		stop := u.postReceipts(ctx, &receipts)
		defer receipts.Wait()
		defer stop()
	}
	var posts sync.WaitGroup
	defer posts.Wait()
	rng := rand.New(rand.NewPCG(u.cfg.Seed, 1))
	begin := u.api.Now()
	u.pace.begin(begin)
	for {
		at, changed := u.pace.next()
		if duration > 0 && at.Sub(begin) >= duration {
			return nil
		}
		select {
		case <-time.After(at.Sub(u.api.Now())):
		case <-changed:
			continue
		case <-ctx.Done():
			return nil
		}
		if u.hook.Unsubscribed() {
			return webhook.ErrUnsubscribed
		}
		n := 1
		if rng.Float64() < u.cfg.Batches {
			n = 2 + rng.IntN(4)
		}
		u.pace.wrote(n)
		u.write(ctx, rng, n, &posts)
	}
}

// blockRecipients makes the share of bad recipients that the configuration asks
// for.
func (u *Users) blockRecipients() error {
	if u.cfg.BadRecipients == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]float64{"bad_recipients": u.cfg.BadRecipients})
	if err != nil {
		return fmt.Errorf("encode bad recipients: %w", err)
	}
	return u.api.Patch(patch)
}

// write lets n random users of one page write, in one webhook.
func (u *Users) write(ctx context.Context, rng *rand.Rand, n int, posts *sync.WaitGroup) {
	// All draws come first, so that they do not depend on what was skipped.
	page := rng.IntN(u.cfg.Pages)
	events, writers := make([]webhook.Event, n), make([]int, n)
	for k := range n {
		writers[k] = u.drawWriter(rng, page)
		events[k] = webhook.Event{Page: u.page(page), User: u.User(page, writers[k]), Text: u.cfg.Texts[rng.IntN(len(u.cfg.Texts))]}
		if u.cfg.Pictures > 0 && rng.Float64() < u.cfg.Pictures {
			addPictures(&events[k], rng)
		}
	}
	post := &webhook.Post{Split: rng.IntN(2) == 0, Instagram: u.api.IsInstagram(u.page(page))}
	var late, again time.Duration
	if rng.Float64() < u.cfg.OutOfOrder {
		late = time.Duration(rng.Int64N(int64(time.Second)))
	}
	if rng.Float64() < u.cfg.Duplicates {
		again = 1 + time.Duration(rng.Int64N(int64(2*time.Second)))
	}
	select {
	case u.slots <- struct{}{}:
	default:
		u.counts.skipped.Add(int64(n))
		return
	}
	for k, e := range events {
		e.At, e.MID = u.api.Now(), u.nextMID()
		u.announce(post, e, u.others(page, writers[k]))
		if len(e.Pictures) > 0 {
			u.counts.pictures.Add(1)
		}
	}
	posts.Go(func() {
		defer func() { <-u.slots }()
		if !wire.Sleep(late, ctx.Done()) {
			post.Withdraw()
			return
		}
		if u.hook.Deliver(ctx, post) && again > 0 && wire.Sleep(again, ctx.Done()) {
			u.counts.repeats.Add(1)
			u.hook.Try(ctx, post)
		}
	})
}

// addPictures adds one to three pictures, and leaves out the text of every
// second message. Their addresses have characters that the wire escapes.
func addPictures(e *webhook.Event, rng *rand.Rand) {
	for range 1 + rng.IntN(3) {
		e.Pictures = append(e.Pictures, fmt.Sprintf("https://pictures.example/p/%d.png?size=1080&oh=a%%2Fb", rng.IntN(1_000_000)))
	}
	if rng.IntN(2) == 0 {
		e.Text = ""
	}
}

// drawWriter draws a user of the page who is not a bad recipient, because a
// user who blocked the page does not write to it.
func (u *Users) drawWriter(rng *rand.Rand, page int) int {
	id := u.page(page)
	users := u.cfg.Rooms * u.cfg.Users
	n := rng.IntN(users)
	for range users {
		if !u.api.BadRecipient(id, u.User(page, n)) {
			break
		}
		n = (n + 1) % users
	}
	return n
}

// others returns the other members of a user's room, without bad recipients.
func (u *Users) others(page, n int) []string {
	id := u.page(page)
	first := n - n%u.cfg.Users
	list := make([]string, 0, u.cfg.Users-1)
	for m := first; m < first+u.cfg.Users; m++ {
		if m == n {
			continue
		}
		if to := u.User(page, m); !u.api.BadRecipient(id, to) {
			list = append(list, to)
		}
	}
	return list
}
