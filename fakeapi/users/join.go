package users

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"chatclub/fakeapi/webhook"
)

// Join lets every user tap "Get Started" and waits for each one's welcome: the
// copy of the postback for its own sender. Users of a page join in order, so
// that the system's rooms hold the users that this package expects there. Pages
// join at the same time. A user who joined in an earlier run gets the
// same answer.
func (u *Users) Join(ctx context.Context) error {
	if u.cfg.Rooms > 1 && u.api.Settings().BadRecipients > 0 {
		return errors.New("join: with several rooms bad recipients must begin with the chat (Config.BadRecipients), because a user who leaves while others join mixes the rooms")
	}
	pages, ctx := errgroup.WithContext(ctx)
	for i := range u.cfg.Pages {
		pages.Go(func() error { return u.joinPage(ctx, i) })
	}
	if err := pages.Wait(); err != nil {
		return err
	}
	u.joinedOnce.Do(func() { close(u.joined) })
	return nil
}

// Joined returns a channel that is closed when Join has succeeded. The phones
// of package web wait for it.
func (u *Users) Joined() <-chan struct{} { return u.joined }

func (u *Users) joinPage(ctx context.Context, page int) error {
	for room := range u.cfg.Rooms {
		// A group per room: the next room's users must not come before the
		// last of this one is in.
		users, ctx := errgroup.WithContext(ctx)
		users.SetLimit(u.cfg.JoinParallel)
		for n := room * u.cfg.Users; n < (room+1)*u.cfg.Users; n++ {
			users.Go(func() error { return u.joinUser(ctx, page, n) })
		}
		if err := users.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (u *Users) joinUser(ctx context.Context, page, n int) error {
	id, user := u.page(page), u.User(page, n)
	e := webhook.Event{Page: id, User: user, At: u.api.Now(), MID: u.nextMID(), Payload: webhook.GetStarted, Title: "Get Started"}
	welcome, forget := u.api.Ledger().Watch(u.api.MessageID(id, e.MID, user))
	defer forget()
	post := &webhook.Post{Instagram: u.api.IsInstagram(id)}
	u.announce(post, e, []string{user})
	ctx, cancel := context.WithTimeout(ctx, u.cfg.Webhook.RetryFor+u.cfg.JoinTimeout)
	defer cancel()
	if !u.hook.Deliver(ctx, post) {
		return fmt.Errorf("join user %d of page %s: the webhook did not take the event", n, id)
	}
	ctx, cancel = context.WithTimeout(ctx, u.cfg.JoinTimeout)
	defer cancel()
	select {
	case <-welcome:
		u.counts.joined.Add(1)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("join user %d of page %s: no welcome: %w", n, id, ctx.Err())
	}
}

// announce adds an event to a post, and announces its copies for the recipients.
func (u *Users) announce(p *webhook.Post, e webhook.Event, recipients []string) {
	p.Events = append(p.Events, e)
	p.Announced = append(p.Announced, u.api.Announce(e.Page, e.MID, recipients, len(e.Pictures)))
}
