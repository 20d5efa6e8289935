package deadletter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/webhook"
)

// Letter is a message on the dead-letter queue. Headers that it does not have,
// because it is of an older version or the broker itself put it there, are taken
// from its body where that can be decoded: of an older version's the time is when its
// event happened. Its reason is empty if the broker itself put it there, its page if it
// is undecodable.
type Letter struct {
	ID string `json:"id"`
	message.Death

	body  []byte
	trace map[string]string // as a message's headers
	copy  *message.Outbound // nil: it is none
	event *message.Event    // nil: it is none
	raw   bool              // webhook could not decode it: a part of Messenger's post
	core  bool              // core could not decode it
}

// Read returns the letter of a delivery. It never fails: of a message that is
// none of ours only the id is known.
func Read(d *queue.Delivery, t queue.Topology) Letter {
	l := Letter{ID: d.ID, body: d.Body, trace: message.CarryTrace(nil, d.Headers)}
	l.Death, _ = message.DeathFromHeaders(d.Headers) // empty with an error
	var page, recipient string
	var at int64
	if o, err := message.DecodeOutbound(d.Body); err == nil && !t.IsInbound(l.Queue) {
		l.copy, page, recipient, at = &o, o.Page, o.To, o.Time
	} else if e, err := message.DecodeEvent(d.Body); err == nil {
		l.event, page, at = &e, e.Page, e.Time
	}
	if undecodable := l.copy == nil && l.event == nil && t.IsInbound(l.Queue); undecodable {
		l.raw = strings.HasPrefix(l.ID, webhook.Undecodable)
		l.core = !l.raw
	}
	l.Page, l.Recipient = cmp.Or(l.Page, page), cmp.Or(l.Recipient, recipient)
	if l.Time.IsZero() && at > 0 {
		l.Time = time.UnixMilli(at).UTC()
	}
	return l
}

// Body is the message as it was on its queue, with its text.
func (l Letter) Body() []byte { return l.body }

// errUndecodable is the error of Revive for a letter without a message of ours.
var errUndecodable = errors.New("its body is not one of our messages")

// broadcastTime is the time in which a renewed copy of a broadcast may still be sent:
// as for a broadcast that names no deadline.
const broadcastTime = time.Hour

// Revive returns the messages in the letter's place, in its trace, for the queue that it came
// from: the inbound or outbound partition of its page. It has the letter's own id. A copy's
// attempts begin again. Its age does only where renew is set to the time that it is to
// have. An event that reports something keeps its time, because something newer may be
// known.
//
// A body that an older webhook could not decode becomes its events, if this version can.
// An event that core could not decode goes back as it is: another version's core may.
func (l Letter) Revive(t queue.Topology, renew time.Time) ([]queue.Message, error) {
	var (
		list []queue.Message
		err  error
	)
	switch {
	case l.copy != nil:
		o := *l.copy
		o.Attempts, o.FirstCode = 0, ""
		if !renew.IsZero() {
			o.Time = renew.UnixMilli()
			if o.Deadline != 0 {
				o.Deadline = renew.Add(broadcastTime).UnixMilli()
			}
		}
		list = make([]queue.Message, 1)
		list[0] = queue.Message{ID: l.ID, Queue: t.OutboundOf(o.Page)}
		list[0].Body, err = o.Encode()
	case l.event != nil:
		list, err = l.reviveEvents(t, renew, *l.event)
		if err == nil {
			list[0].ID = l.ID
		}
	case l.raw:
		list, err = l.reviveEvents(t, renew, l.readRaw()...)
	case l.core:
		list = []queue.Message{{ID: l.ID, Queue: l.Queue, Body: l.body}}
		if !t.Has(l.Queue) { // it is of another version, or of another number of partitions
			list[0].Queue = t.InboundOf("")
		}
	}
	if err == nil && len(list) == 0 {
		err = errUndecodable
	}
	if err != nil {
		return nil, fmt.Errorf("revive dead letter: %w", err)
	}
	for i := range list {
		list[i].Headers = l.trace
	}
	return list, nil
}

// reviveEvents returns a message for each event.
func (l Letter) reviveEvents(t queue.Topology, renew time.Time, events ...message.Event) (list []queue.Message, err error) {
	for _, e := range events {
		if !renew.IsZero() && (e.Kind == message.KindMessage || e.Kind == message.KindPostback) {
			e.Time = renew.UnixMilli()
		}
		body, err := e.Encode()
		if err != nil {
			return nil, err
		}
		list = append(list, queue.Message{ID: e.Page + "/" + e.ID, Queue: t.InboundOf(e.Page), Body: body})
	}
	return list, nil
}

// readRaw returns the events of one of Messenger's posts, as webhook would have made them:
// none unless all of it can be decoded.
func (l Letter) readRaw() []message.Event {
	parts, err := webhook.Split(l.body, l.Time, strings.HasPrefix(l.ID, webhook.UndecodableAll))
	if err != nil || len(parts.Bad) > 0 {
		return nil
	}
	return parts.Events
}

// Filter says which letters are meant. The zero value means all. Each field that
// is set must fit.
type Filter struct {
	IDs       []string
	Event     string // only the letters of this event, PAGE/MID, and of its copies
	Reasons   []message.Reason
	Page      string
	Recipient string        // a copy's
	Older     time.Duration // dead for at least so long
	Newer     time.Duration // dead for at most so long
	Before    time.Time     // dead before that, or without a time
}

// Match reports whether the filter means l. A letter without a time fits no age.
func (f Filter) Match(l Letter, now time.Time) bool {
	age := now.Sub(l.Time)
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, l.ID)) &&
		(f.Event == "" || l.ID == f.Event || strings.HasPrefix(l.ID, f.Event+"/")) &&
		(len(f.Reasons) == 0 || slices.Contains(f.Reasons, l.Reason)) &&
		(f.Page == "" || f.Page == l.Page) &&
		(f.Recipient == "" || f.Recipient == l.Recipient) &&
		(f.Older == 0 || !l.Time.IsZero() && age >= f.Older) &&
		(f.Newer == 0 || !l.Time.IsZero() && age <= f.Newer) &&
		(f.Before.IsZero() || l.Time.Before(f.Before))
}

// Oldest are those letters of many that died first, in order. One without a time is
// where it was on the queue. A queue is in order by itself, unless a tool was killed
// that held a part of it. The zero value holds none.
type Oldest struct {
	Most    int
	Letters []Letter
}

// Add takes a letter in if it is among the oldest so far. Its error is always nil.
func (o *Oldest) Add(l Letter) error {
	i := len(o.Letters)
	for i > 0 && !l.Time.IsZero() && l.Time.Before(o.Letters[i-1].Time) {
		i--
	}
	if i < o.Most {
		o.Letters = slices.Insert(o.Letters, i, l)
		o.Letters = o.Letters[:min(len(o.Letters), o.Most)]
	}
	return nil
}
