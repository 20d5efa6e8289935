package dispatch

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Messages is a replica's knowledge of one event's copies, or of one person's messages, the
// answer of GET /messages.
type Messages struct {
	Messages []MessageStatus `json:"messages"`
	Lanes    []string        `json:"lanes"` // the page's, of which this replica is the owner: queues
	// SentSince is the begin of the replica's memory of sent messages: those sent before
	// are forgotten.
	SentSince time.Time `json:"sent_since,omitzero"`
}

// MessageStatus is one message.
type MessageStatus struct {
	ID      string    `json:"id"`
	Page    string    `json:"page"`
	To      string    `json:"to"`
	State   string    `json:"state"`            // "waiting", "calling", "moving" to another queue, or "sent"
	Queue   string    `json:"queue,omitempty"`  // where it is from, unless it was sent
	Attempt int       `json:"attempt"`          // the call that it was sent by, or that is made or waited for; from 1
	Age     float64   `json:"age,omitempty"`    // seconds since its event, unless it was sent
	Reason  Reason    `json:"reason,omitempty"` // why it is in no call; empty: nothing keeps it
	Until   time.Time `json:"until,omitzero"`   // when that ends by itself; missing: when what it waits for happens
	SentAt  time.Time `json:"sent_at,omitzero"` // when the API's answer came
}

// sentLog remembers the messages that were sent last. One of them that comes again is not
// sent again: its acknowledgement was lost with a link, or its publisher missed the
// confirmation.
type sentLog struct {
	since time.Time
	list  []sent            // a ring, once it is full
	known map[identity]bool // those in it
	next  int
}

type sent struct {
	identity
	at      time.Time
	attempt int
}

// identity is the same for a message and its repetitions. Two bots may have the same id for
// messages to different people.
type identity struct{ page, to, id string }

func (m *held) identity() identity { return identity{m.out.Page, m.out.To, m.delivery.ID} }

// sentKept is the largest number of messages that are remembered: 20 seconds of 3,000 a
// second, longer than it takes until the broker delivers again what a lost link held, in
// some 20 MB.
const sentKept = 1 << 16

// has reports whether a message was sent lately.
func (s *sentLog) has(m *held) bool { return s.known[m.identity()] }

// add remembers a message in place of the oldest.
func (s *sentLog) add(m *held, now time.Time) {
	one := sent{m.identity(), now, m.out.Attempts + 1}
	if s.known == nil {
		s.known = make(map[identity]bool)
	}
	s.known[one.identity] = true
	if len(s.list) < sentKept {
		s.list = append(s.list, one)
		return
	}
	s.since = s.list[s.next].at
	delete(s.known, s.list[s.next].identity)
	s.list[s.next] = one
	s.next = (s.next + 1) % sentKept
}

// wanted says which messages are asked for: those of an id or an event, or those to a person.
type wanted struct{ id, to string }

func (w wanted) has(i identity) bool {
	if w.to != "" {
		return i.to == w.to
	}
	rest, ok := strings.CutPrefix(i.id, w.id)
	return ok && (rest == "" || rest[0] == '/')
}

// find returns the wanted ones of the messages that were sent last.
func (s *sentLog) find(w wanted) (found []MessageStatus) {
	for i := range s.list {
		if one := &s.list[i]; w.has(one.identity) {
			found = append(found, MessageStatus{ID: one.id, Page: one.page, To: one.to, State: "sent", Attempt: one.attempt, SentAt: one.at})
		}
	}
	return found
}

// find returns the wanted ones of the messages that are held. It looks through all, because
// an id may be of any form.
func (e *engine) find(w wanted) []MessageStatus {
	now, found := e.Now(), []MessageStatus{}
	names := map[state]string{isWaiting: "waiting", isCalling: "calling", isMoving: "moving", isGone: "gone"}
	for _, c := range e.claims.all {
		for _, s := range c.sources {
			for m := s.first; m != nil; m = m.next {
				if w.has(m.identity()) {
					why := e.whyMessage(m, now)
					found = append(found, MessageStatus{
						ID: m.delivery.ID, Page: m.out.Page, To: m.out.To, State: names[m.state], Queue: s.queue, Attempt: m.out.Attempts + 1,
						Age: m.out.Age(now).Seconds(), Reason: why.reason, Until: why.until,
					})
				}
			}
		}
	}
	return found
}

// lanesOf returns the lanes that may have something of a page: queues.
func (e *engine) lanesOf(page string) []string {
	list := []string{}
	for key, l := range e.pages.lines {
		lacks := l.shared != nil && e.tokenless.pages[page] != nil && l.shared.index == e.Broker.Topology().PartitionOf(page)
		if (key.Page == page || lacks) && l.spill != nil {
			list = append(list, l.spill.lane.source.queue)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// maxFound bounds the messages in an answer: to one person there may be thousands.
const maxFound = 1000

// messages asks the engine.
func (d *Dispatcher) messages(ctx context.Context, w wanted) (Messages, error) {
	page, _, _ := strings.Cut(w.id, "/")
	question := func(e *engine) Messages {
		sent := &e.calls.sent
		found := append(e.find(w), sent.find(w)...)
		return Messages{Messages: found[:min(maxFound, len(found))], Lanes: e.lanesOf(page), SentSince: sent.since}
	}
	return ask(ctx, d, question)
}

// MessagesHandler serves what the dispatcher knows of messages, for the admin port:
//
//	GET /messages?id=ID    → Messages
//	GET /messages?to=PSID  → Messages
//
// ID is a message's, or an event's: PAGE/MID.
// The dispatcher knows the messages that it holds, and those that it has sent last. The others
// are of other replicas. It tells 1,000 at most.
func (d *Dispatcher) MessagesHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /messages", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		asked := wanted{query.Get("id"), query.Get("to")}
		if (asked.id == "") == (asked.to == "") {
			d.write(w, r, http.StatusBadRequest, map[string]string{"error": "id: either it or to must be given", "field": "id"})
			return
		}
		found, err := d.messages(r.Context(), asked)
		d.answer(w, r, found, err)
	})
	return mux
}
