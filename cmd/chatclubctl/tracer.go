package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"chatclub/internal/deadletter"
	"chatclub/internal/dispatch"
	"chatclub/internal/operator"
	"chatclub/internal/queue"
	"chatclub/internal/replicas"
	"chatclub/internal/service"
)

// tracer finds one message.
type tracer struct {
	*fleet
	broker queue.Broker // nil: it is not asked
	only   string       // PAGE/MID/RECIPIENT; empty: all copies
	traced
}

// find asks everybody. Who does not answer is among what is unknown.
func (tr *tracer) find(ctx context.Context) error {
	page, mid, hasPage := strings.Cut(tr.ID, "/")
	if !hasPage {
		page, mid = "", tr.ID
	}
	mid, _, hasRecipient := strings.Cut(mid, "/")
	if hasRecipient {
		tr.only = tr.ID
	}
	page, err := tr.askAboutEvent(ctx, page, mid)
	if err != nil {
		return err
	}
	if tr.ID = page + "/" + mid; page == "" {
		tr.ID = mid
		tr.miss("core does not know it: it never came, waits on a queue of events, or is older than a day. With PAGE/%s the rest can be looked through", mid)
		return nil
	}
	// Queues first: what leaves one meanwhile is then found where it goes.
	tr.countQueues(ctx, page)
	tr.askDispatchers(ctx)
	tr.lookAtDead(ctx)
	slices.SortStableFunc(tr.Copies, func(a, b tracedCopy) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), a.At.Compare(b.At))
	})
	return nil
}

func (tr *tracer) miss(format string, args ...any) {
	tr.Unknown = append(tr.Unknown, fmt.Sprintf(format, args...))
}

// askAboutEvent asks core, and returns the event's page.
func (tr *tracer) askAboutEvent(ctx context.Context, page, mid string) (string, error) {
	if len(tr.core) == 0 {
		tr.miss("whether core received it: CORE is not set")
		return page, nil
	}
	if id, ok := strings.CutPrefix(mid, "broadcast-"); ok {
		var b operator.Broadcast
		err := tr.askCore(ctx, http.MethodGet, "/broadcasts/"+url.PathEscape(id), nil, &b)
		if err != nil {
			tr.miss("how far the broadcast is: %s", service.OneLine(err))
			return page, nil
		}
		tr.Broadcast = &b
		return b.Page, nil
	}
	var answer struct {
		Messages []operator.Message `json:"messages"`
	}
	err := tr.askCore(ctx, http.MethodGet, "/messages?"+url.Values{"mid": {mid}, "page": {page}}.Encode(), nil, &answer)
	switch {
	case err != nil && page == "":
		return "", err
	case err != nil:
		tr.miss("whether core received it: %s", service.OneLine(err))
	case len(answer.Messages) > 1:
		return "", fmt.Errorf("%d pages have a message of this id, one is %q: give PAGE/MID", len(answer.Messages), answer.Messages[0].Page)
	case len(answer.Messages) == 1:
		tr.Core = &answer.Messages[0]
		return tr.Core.Page, nil
	}
	return page, nil
}

// wants reports whether a copy is asked for.
func (tr *tracer) wants(id string) bool {
	return tr.only == "" || id == tr.only || strings.HasPrefix(id, tr.only+"/")
}

// askDispatchers asks all what they hold, and what they have sent of late.
func (tr *tracer) askDispatchers(ctx context.Context) {
	if len(tr.dispatchers) == 0 {
		tr.miss("what dispatchers hold and have sent: DISPATCHERS is not set")
		return
	}
	var since time.Time // since when everybody knows
	err := tr.eachDispatcher(ctx, func(r replicas.Replica, answer dispatch.Messages) {
		if answer.SentSince.After(since) {
			since = answer.SentSince
		}
		for _, m := range answer.Messages {
			if !tr.wants(m.ID) {
				continue
			}
			c := tracedCopy{ID: m.ID, State: m.State, Where: r.Name, At: m.SentAt, Attempt: m.Attempt}
			if m.State != "sent" {
				c.Detail = fmt.Sprintf("%.1fs old, from %s", m.Age, m.Queue)
			}
			tr.Copies = append(tr.Copies, c)
		}
	})
	if err != nil {
		tr.miss("what these dispatchers hold and have sent: %s", service.OneLine(err))
	}
	if !since.IsZero() {
		tr.miss("what was sent before %s, or by a dispatcher that has ended: only logs at debug have it", since.UTC().Format(time.RFC3339))
	}
}

// eachDispatcher asks all what they know of the event, at once, and calls note with one
// answer after another.
func (tr *tracer) eachDispatcher(ctx context.Context, note func(replicas.Replica, dispatch.Messages)) error {
	var mu sync.Mutex
	return replicas.Each(tr.dispatchers, func(_ int, r replicas.Replica) error {
		var answer dispatch.Messages
		if err := tr.client.Ask(ctx, http.MethodGet, r.URL+"/messages?id="+url.QueryEscape(tr.ID), nil, &answer); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if answer.SentSince.IsZero() {
			return fmt.Errorf("%s is busy, or ends", r.Name)
		}
		note(r, answer)
		return nil
	})
}

// lookAtDead looks through the dead letters.
func (tr *tracer) lookAtDead(ctx context.Context) {
	if tr.broker == nil {
		tr.miss("what is dead, and what waits on queues: AMQP_URL is not set")
		return
	}
	dead := deadletter.Queue{Broker: tr.broker, Now: time.Now}
	_, err := dead.List(ctx, deadletter.Filter{Event: tr.ID}, func(l deadletter.Letter) error {
		if l.ID == tr.ID || tr.wants(l.ID) {
			detail := string(l.Reason)
			if code := codes(l); code != "" {
				detail += ", code " + code
			}
			tr.Copies = append(tr.Copies, tracedCopy{ID: l.ID, State: "dead", Where: "dead letters", At: l.Time, Attempt: l.Attempts, Detail: detail})
		}
		return nil
	})
	if err != nil {
		tr.miss("what is dead: %s", service.OneLine(err))
	}
}

// countQueues counts what waits where the message, or a copy, may wait.
func (tr *tracer) countQueues(ctx context.Context, page string) {
	if tr.broker == nil {
		return
	}
	top := tr.broker.Topology()
	var names []string
	if tr.Broadcast == nil && (tr.Core == nil || !tr.Core.Finished) {
		names = append([]string{top.Inbound()}, top.Overflows()...)
	}
	names = append(names, top.OutboundOf(page))
	_ = tr.eachDispatcher(ctx, func(_ replicas.Replica, answer dispatch.Messages) { // who does not answer is asked again, and told of
		names = append(names, answer.Lanes...)
	})
	for _, d := range queue.Delays() {
		names = append(names, top.Retry(d))
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, name := range names {
		info, err := tr.broker.Inspect(ctx, name)
		if err == nil && info.Ready > 0 {
			tr.Queues = append(tr.Queues, tracedQueue{name, info.Ready})
		}
		if err != nil && top.Has(name) { // a page has a lane only in excess
			tr.miss("what waits on %s: %s", name, service.OneLine(err))
		}
	}
}
