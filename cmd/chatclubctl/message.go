package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"chatclub/internal/dispatch"
	"chatclub/internal/replicas"
	"chatclub/internal/rooms"
)

// askMessage asks core and all dispatchers about the messages of an id. It is an error if
// nobody knows one.
func (f *findings) askMessage(ctx context.Context, fleet replicas.Fleet, id string) error {
	page, mid, hasPage := strings.Cut(id, "/")
	if !hasPage {
		page, mid = "", id
	}
	event, _, _ := strings.Cut(mid, "/")
	known, coreErr := askAboutEvent(ctx, fleet, page, event)
	f.Events = known
	if len(known) == 0 && coreErr == nil && len(fleet.Core) > 0 {
		f.say("not known to core: it never came, is no event, waits on a queue of events, or is older than a day")
	}
	for _, m := range known {
		f.say("%s %s", m.Page+"/"+m.ID, received(m))
		if !hasPage {
			id = m.Page + "/" + mid
		}
	}
	if !hasPage && len(known) > 1 {
		return fmt.Errorf("%d pages have a message of this id: give PAGE/MID", len(known))
	}
	err := errors.Join(coreErr, f.askCopies(ctx, fleet, id))
	if err == nil && len(known)+len(f.Messages) == 0 {
		return fmt.Errorf("no program that was asked knows %.300q, as a page or a message", id)
	}
	return err
}

// askAboutEvent asks core for the events of an id; nothing is known without a core.
func askAboutEvent(ctx context.Context, f replicas.Fleet, page, mid string) ([]rooms.EventView, error) {
	if len(f.Core) == 0 {
		return nil, nil
	}
	var answer struct {
		Messages []rooms.EventView `json:"messages"`
	}
	err := f.AskCore(ctx, http.MethodGet, "/messages?"+url.Values{"mid": {mid}, "page": {page}}.Encode(), nil, &answer)
	return answer.Messages, err
}

// received says what core knows of an event.
func received(m rooms.EventView) string {
	text := "received by core at " + since(m.Received)
	if m.Room != 0 {
		text += fmt.Sprintf(" from %s in room %d", m.User, m.Room)
	}
	switch {
	case m.Finished:
		return text + "; its copies were queued, if it was not left out, and to whom is not kept"
	case m.Rejected:
		return text + "; it had no effect: its user floods, is banned or has left"
	case m.Paused:
		return text + "; it has no copies: its page is paused"
	}
	return text + fmt.Sprintf("; %d copies are not all queued yet", m.Copies)
}

// askCopies asks all dispatchers for the messages of an id. A dispatcher that does not
// answer is in the error.
func (f *findings) askCopies(ctx context.Context, fleet replicas.Fleet, id string) error {
	answers := make([]dispatch.Messages, len(fleet.Dispatchers))
	err := replicas.Each(fleet.Dispatchers, func(i int, r replicas.Replica) error {
		return fleet.Ask(ctx, http.MethodGet, r.URL+"/messages?id="+url.QueryEscape(id), nil, &answers[i])
	})
	for i, a := range answers {
		if a.SentSince.After(f.SentSince) {
			f.SentSince = a.SentSince
		}
		for _, m := range a.Messages {
			f.Messages = append(f.Messages, heldMessage{fleet.Dispatchers[i].Name, m})
		}
	}
	slices.SortStableFunc(f.Messages, byID)
	for _, m := range f.Messages {
		f.say("%s %s", m.ID, m.why())
		f.Act = f.Act || !m.Reason.Explain().Alone
	}
	switch {
	case f.SentSince.IsZero():
	case len(f.Messages) == 0:
		f.say("no dispatcher holds it, or has sent it since %s: it waits on a queue, was sent before, or is dead (chatclubctl dead show)", since(f.SentSince))
	default:
		f.say("dispatchers know what they have sent since %s", since(f.SentSince))
	}
	return err
}

// why says where a message is, and what it waits for.
func (m heldMessage) why() string {
	page, _, _ := strings.Cut(m.ID, "/")
	switch m.State {
	case "sent":
		return fmt.Sprintf("was sent at %s by %s, with call %d", since(m.SentAt), m.Dispatcher, m.Attempt)
	case "calling":
		return fmt.Sprintf("is in call %d, of %s, from %s", m.Attempt, m.Dispatcher, m.Queue)
	case "waiting":
		text := fmt.Sprintf("waits on %s, from %s, for call %d: ", m.Dispatcher, m.Queue, m.Attempt)
		if m.Reason == "" {
			return text + "it goes now, or those before it do"
		}
		return text + m.Reason.Sentence(m.Until) + advice(m.Reason, page)
	case "moving":
		if m.Reason != "" {
			return fmt.Sprintf("goes by %s to a retry queue: it waits %s", m.Dispatcher, m.Reason.Sentence(m.Until))
		}
		return fmt.Sprintf("is moved by %s from %s to another queue", m.Dispatcher, m.Queue)
	}
	return fmt.Sprintf("is %s at %s, from %s", m.State, m.Dispatcher, m.Queue)
}
