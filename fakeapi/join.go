package fakeapi

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"chatclub/fakeapi/webhook"
	"chatclub/fakeapi/wire"
)

// Join lets every user tap "Get Started" and waits for each one's welcome: the
// copy of the postback for its own sender. Users of a page join in order, so
// that the system's rooms hold whom the source thinks they hold; pages join at
// the same time. A user who joined in an earlier run is answered likewise.
func (s *Source) Join(ctx context.Context) error {
	if s.cfg.Rooms > 1 && s.api.Settings().BadRecipients > 0 {
		return errors.New("join: with several rooms bad recipients must begin with the chat (SourceConfig.BadRecipients): who leaves while others join mixes the rooms")
	}
	pages, ctx := errgroup.WithContext(ctx)
	for i := range s.cfg.Pages {
		pages.Go(func() error { return s.joinPage(ctx, i) })
	}
	if err := pages.Wait(); err != nil {
		return err
	}
	s.joinedOnce.Do(func() { close(s.joined) })
	return nil
}

// Joined is closed when Join has succeeded: see PhonesConfig.Ready.
func (s *Source) Joined() <-chan struct{} { return s.joined }

func (s *Source) joinPage(ctx context.Context, page int) error {
	for room := range s.cfg.Rooms {
		// A group per room: the next room's users must not come before the
		// last of this one is in.
		users, ctx := errgroup.WithContext(ctx)
		users.SetLimit(s.cfg.JoinParallel)
		for n := room * s.cfg.Users; n < (room+1)*s.cfg.Users; n++ {
			users.Go(func() error { return s.joinUser(ctx, page, n) })
		}
		if err := users.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) joinUser(ctx context.Context, page, n int) error {
	id, user := s.Page(page), s.User(page, n)
	h := webhook.Event{Page: id, User: user, At: s.api.now(), MID: s.mid(), Payload: getStarted, Title: "Get Started"}
	welcome, forget := s.api.book.Watch(s.api.messageID(id, h.MID, user))
	defer forget()
	w := s.api.post(h, []string{user})
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RetryFor+s.cfg.JoinTimeout)
	defer cancel()
	if !s.hook.Deliver(ctx, w) {
		return fmt.Errorf("join user %d of page %s: the webhook did not take the event", n, id)
	}
	ctx, cancel = context.WithTimeout(ctx, s.cfg.JoinTimeout)
	defer cancel()
	select {
	case <-welcome:
		s.count.joined.Add(1)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("join user %d of page %s: no welcome: %w", n, id, ctx.Err())
	}
}

// mid makes the next message id.
func (s *Source) mid() string { return string(wire.AppendMID(nil, s.seed, s.seq.Add(1))) }

// others are the members of a user's room who can get what he writes.
func (s *Source) others(page, n int) []string {
	id := s.Page(page)
	first := n - n%s.cfg.Users
	list := make([]string, 0, s.cfg.Users-1)
	for m := first; m < first+s.cfg.Users; m++ {
		if m == n {
			continue
		}
		if to := s.User(page, m); !s.api.BadRecipient(id, to) {
			list = append(list, to)
		}
	}
	return list
}
