package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/replicas"
	"chatclub/internal/rooms"
	"chatclub/internal/service"
)

// traceSettings are those of `chatclubctl trace`.
type traceSettings struct{ adminSettings }

// About says what the program does.
func (traceSettings) About() string {
	return "chatclubctl trace says what core knows of a message, and which of its copies dispatchers hold or have\n" +
		"sent lately. An id is Messenger's mid, PAGE/MID, PAGE/MID/RECIPIENT, or that of any message. `chatclubctl\n" +
		"dead show ID` has the dead ones; what is nowhere waits on a queue, or was sent before."
}

func (t tool) trace(ctx context.Context, id string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl trace ID", flag.ContinueOnError)
	s, err := service.LoadFlags[traceSettings](flags, args, t.environ, t.stdout)
	page, mid, hasPage := strings.Cut(id, "/")
	if !hasPage {
		page, mid = "", id
	}
	switch {
	case err != nil:
		return err
	case len(s.Core)+len(s.Dispatchers) == 0:
		return wrong(errors.New("CORE or DISPATCHERS must be set"))
	}
	f := s.fleet(ctx)
	event, _, _ := strings.Cut(mid, "/")
	known, coreErr := askAboutEvent(ctx, f, page, event)
	if len(known) == 0 && coreErr == nil && len(f.Core) > 0 {
		fmt.Fprintln(t.stdout, "not known to core: it never came, is no event, waits on a queue of events, or is older than a day")
	}
	for _, m := range known {
		fmt.Fprintf(t.stdout, "%s %s\n", printable(m.Page+"/"+m.ID), received(m))
		if !hasPage {
			id = m.Page + "/" + mid
		}
	}
	if !hasPage && len(known) > 1 {
		return fmt.Errorf("%d pages have a message of this id: give PAGE/MID", len(known))
	}
	copies, err := 0, coreErr
	if len(f.Dispatchers) > 0 {
		copies, err = t.traceCopies(ctx, f, id)
		err = errors.Join(coreErr, err)
	}
	if err == nil && len(known)+copies == 0 {
		return fmt.Errorf("no program that was asked knows %.300q", id)
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
		text += fmt.Sprintf(" from %s in room %d", printable(m.User), m.Room)
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

// traceCopies asks all dispatchers for the copies of an id, prints them, and returns how
// many there are. A dispatcher that does not answer is in the error.
func (t tool) traceCopies(ctx context.Context, f replicas.Fleet, id string) (int, error) {
	answers := make([]dispatch.Messages, len(f.Dispatchers))
	err := replicas.Each(f.Dispatchers, func(i int, r replicas.Replica) error {
		return f.Ask(ctx, http.MethodGet, r.URL+"/messages?id="+url.QueryEscape(id), nil, &answers[i])
	})
	type held struct {
		dispatch.MessageStatus
		at string
	}
	var copies []held
	var known time.Time // since when all dispatchers know what they have sent
	for i, a := range answers {
		if a.SentSince.After(known) {
			known = a.SentSince
		}
		for _, m := range a.Messages {
			copies = append(copies, held{m, f.Dispatchers[i].Name})
		}
	}
	slices.SortStableFunc(copies, func(a, b held) int { return cmp.Compare(a.ID, b.ID) })
	w := newTable(t.stdout)
	if len(copies) > 0 {
		fmt.Fprintln(w, "ID\tSTATE\tDISPATCHER\tQUEUE\tSENT AT\tCALLS")
	}
	for _, c := range copies {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", printable(c.ID), printable(c.State), c.at, printable(c.Queue), since(c.SentAt), c.Attempt)
	}
	if !known.IsZero() {
		fmt.Fprintf(w, "dispatchers know what they have sent since %s\n", since(known))
	}
	return len(copies), errors.Join(err, w.Flush())
}
