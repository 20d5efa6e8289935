package core

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"chatclub/internal/fanout"
	"chatclub/internal/message"
	"chatclub/internal/plaintext"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

const (
	// defaultRate leaves nine tenths of a page's 300 calls a second to what
	// people write.
	defaultRate = 30
	// maxDeadline: who wrote last before that can no longer be sent to.
	maxDeadline = rooms.Window
	// broadcastBatch is how many messages are confirmed at a time: the
	// publisher's window holds a few of them.
	broadcastBatch = 500
	maxBroadcastID = 64
)

// Broadcast is the request of POST /broadcast: a text to the members of a room
// or of all rooms of a page, through the bulk queue, which is served with what
// everything else leaves.
type Broadcast struct {
	Page     string    `json:"page"`
	Room     int       `json:"room"` // its number; 0: all rooms of the page
	Text     string    `json:"text"`
	Rate     float64   `json:"rate"`     // messages per second at most; default 30
	Deadline time.Time `json:"deadline"` // not sent afterwards; default in an hour, at most in 24
	ID       string    `json:"id"`       // default a new one
	After    string    `json:"after"`    // only to those behind this one: to go on with a broadcast that stopped
}

// progress says how far a broadcast is on the queue.
type progress struct {
	ID         string `json:"id"`
	Recipients int    `json:"recipients"`
	Queued     int    `json:"queued"`         // messages on the queue
	Last       string `json:"last,omitempty"` // the last recipient whose messages are
}

// errStopped: the broker did not take all. The request made again with the
// same id, and after set to the last one, goes on.
type errStopped struct {
	progress progress
	err      error
}

func (e *errStopped) Error() string { return "broadcast stopped: " + e.err.Error() }
func (e *errStopped) Unwrap() error { return e.err }

// check fills in what is missing and names what is wrong.
func (b *Broadcast) check(now time.Time, limit float64) (texts []string, err error) {
	clean := plaintext.Clean(b.Text)
	switch {
	case b.Page == "":
		return nil, badField("page", "must be given")
	case b.Room < 0:
		return nil, badField("room", "must be a room's number, or 0 for all")
	case clean == "":
		return nil, badField("text", "must have something readable")
	}
	if b.Rate == 0 {
		b.Rate = min(defaultRate, limit)
	}
	if !(b.Rate > 0 && b.Rate <= limit) {
		return nil, badField("rate", "must be above 0 and at most %g messages per second", limit)
	}
	if b.Deadline.IsZero() {
		b.Deadline = now.Add(time.Hour)
	}
	if !b.Deadline.After(now) || b.Deadline.Sub(now) > maxDeadline {
		return nil, badField("deadline", "must be within the next %v", maxDeadline)
	}
	if b.ID == "" {
		b.ID = rand.Text()
	}
	if len(b.ID) > maxBroadcastID || strings.ContainsFunc(b.ID, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
		return nil, badField("id", "must have at most %d ASCII characters, no space and no slash", maxBroadcastID)
	}
	return plaintext.Split(clean, fanout.MaxText), nil
}

func (c *Core) postBroadcast(r *http.Request) (any, error) {
	var b Broadcast
	if err := decode(r, &b); err != nil {
		return nil, err
	}
	if err := plain("page", b.Page, maxID); err != nil {
		return nil, err
	}
	limit := math.Inf(1)
	if c.cfg.Limit != nil {
		limit = c.cfg.Limit(string(message.ClassText))
	}
	texts, err := b.check(c.cfg.Now(), limit)
	if err != nil {
		return nil, err
	}
	to, err := c.cfg.Store.Audience(r.Context(), b.Page, b.Room)
	if errors.Is(err, rooms.ErrUnknown) {
		return nil, fmt.Errorf("page or room: %w", rooms.ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	takes := time.Duration(float64(len(to)*len(texts)) / b.Rate * float64(time.Second))
	if left := b.Deadline.Sub(c.cfg.Now()); takes > left {
		return nil, badField("deadline", "%d people × %d messages take %v at rate %g, but %v is left",
			len(to), len(texts), takes.Round(time.Second), b.Rate, left.Round(time.Second))
	}
	p, err := c.broadcast(r.Context(), b, texts, to)
	if err != nil {
		return nil, &errStopped{p, err}
	}
	c.cfg.Log.InfoContext(r.Context(), "broadcast queued", "page", b.Page, "room", b.Room, "id", b.ID, "recipients", p.Recipients)
	return p, nil
}

// broadcast puts a broadcast on the bulk queue, recipients in order.
func (c *Core) broadcast(ctx context.Context, b Broadcast, texts, to []string) (progress, error) {
	p := progress{ID: b.ID, Recipients: len(to)}
	var msgs []queue.Message
	flush := func(last string) error {
		if err := c.publish(ctx, msgs); err != nil {
			return err
		}
		p.Queued += len(msgs)
		p.Last = last
		msgs = nil // the broker may keep them
		return nil
	}
	for i, user := range to {
		if user <= b.After {
			continue
		}
		for part, text := range texts {
			o := message.Outbound{
				ID: message.CopyID(b.Page, "broadcast-"+b.ID, user, part), Page: b.Page, To: user, Class: message.ClassText,
				Text: text, Time: c.cfg.Now().UnixMilli(), Broadcast: b.ID, Rate: b.Rate, Deadline: b.Deadline.UnixMilli(),
			}
			body, err := o.Encode()
			if err != nil {
				return p, err
			}
			msgs = append(msgs, queue.Message{Queue: c.cfg.Broker.Topology().Bulk(), ID: o.ID, Body: body})
		}
		if len(msgs) >= broadcastBatch || i == len(to)-1 {
			if err := flush(user); err != nil {
				return p, err
			}
		}
	}
	c.counts.add(rooms.Place{Page: b.Page, Room: b.Room}, p.Queued)
	return p, nil
}
