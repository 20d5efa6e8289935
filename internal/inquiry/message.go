package inquiry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/replicas"
	"chatclub/internal/rooms"
)

// Message is a message that a dispatcher holds or has sent lately.
type Message struct {
	Dispatcher string `json:"dispatcher"`
	dispatch.MessageStatus
}

// askMessage asks core and all dispatchers about the messages of an id.
func (f *Answer) askMessage(ctx context.Context, fleet replicas.Fleet, id string) error {
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
	return errors.Join(coreErr, f.askDispatchers(ctx, fleet, url.Values{"id": {id}}))
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
	text := "received by core at " + Moment(m.Received)
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

// askDispatchers asks all dispatchers for messages: those of an id, or to a person. One that
// does not answer is in the error.
func (f *Answer) askDispatchers(ctx context.Context, fleet replicas.Fleet, query url.Values) error {
	answers := make([]dispatch.Messages, len(fleet.Dispatchers))
	err := replicas.Each(fleet.Dispatchers, func(i int, r replicas.Replica) error {
		return fleet.Ask(ctx, http.MethodGet, r.URL+"/messages?"+query.Encode(), nil, &answers[i])
	})
	for i, a := range answers {
		if a.SentSince.After(f.SentSince) {
			f.SentSince = a.SentSince
		}
		for _, m := range a.Messages {
			f.Messages = append(f.Messages, Message{fleet.Dispatchers[i].Name, m})
		}
	}
	slices.SortStableFunc(f.Messages, func(a, b Message) int { return strings.Compare(a.ID, b.ID) })
	for _, m := range f.Messages {
		f.say("%s %s", m.ID, m.why())
		f.Act = f.Act || !m.Reason.Explain().Alone
	}
	switch {
	case f.SentSince.IsZero():
	case len(f.Messages) == 0:
		f.say("no dispatcher holds it, or has sent it since %s: it waits on a queue, was sent before, or is dead (chatclubctl dead show)", Moment(f.SentSince))
	default:
		f.say("dispatchers know what they have sent since %s", Moment(f.SentSince))
	}
	return err
}

// why says where a message is, and what it waits for.
func (m Message) why() string {
	page := m.Page
	switch m.State {
	case "sent":
		return fmt.Sprintf("was sent at %s by %s, with call %d", Moment(m.SentAt), m.Dispatcher, m.Attempt)
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

// askPerson asks core what keeps copies from a person, PSID or PAGE/PSID, and all dispatchers
// for the messages to it that they hold or have sent lately.
func (f *Answer) askPerson(ctx context.Context, fleet replicas.Fleet, id string) (coreErr error) {
	page, psid, ok := strings.Cut(id, "/")
	if !ok {
		page, psid = "", id
	}
	if len(fleet.Core) > 0 {
		var answer struct {
			People []rooms.PersonView `json:"people"`
		}
		coreErr = fleet.AskCore(ctx, http.MethodGet, "/people?"+url.Values{"psid": {psid}, "page": {page}}.Encode(), nil, &answer)
		f.People = answer.People
	}
	for _, p := range f.People {
		f.say("person %s of page %s %s", p.User, p.Page, about(p))
	}
	return errors.Join(coreErr, f.askDispatchers(ctx, fleet, url.Values{"to": {psid}}))
}

// about says what core knows of a person, and what keeps copies from it.
func about(p rooms.PersonView) string {
	text := fmt.Sprintf("is in room %d", p.Room)
	if p.Room == 0 {
		text = "is in no room, and gets no copies"
	}
	text += "; it wrote last at " + Moment(p.Wrote)
	if p.Closed {
		text += "; Messenger lets nobody write to it before it writes again"
	}
	for _, x := range []struct {
		what  string
		until *time.Time
	}{
		{"messages to it failed, and it gets no copies", p.Failing}, {"it has muted its room", p.Muted}, {"it is banned", p.Banned},
	} {
		switch {
		case x.until == nil:
		case x.until.IsZero():
			text += "; " + x.what + ", for ever"
		default:
			text += "; " + x.what + ", until " + Moment(*x.until)
		}
	}
	return text
}
