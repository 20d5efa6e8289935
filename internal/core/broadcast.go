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
	"chatclub/internal/rooms"
)

const (
	// defaultRate leaves nine tenths of a page's 300 calls a second to what
	// people write.
	defaultRate = 30
	// maxDeadline: who wrote last before that can no longer be sent to.
	maxDeadline    = rooms.Window
	maxBroadcastID = 64
)

// broadcastStore is what broadcasts need of rooms.Store.
type broadcastStore interface {
	Audience(ctx context.Context, page string, room int) (int, error)
	AddBroadcast(ctx context.Context, b rooms.Broadcast) (kept rooms.Broadcast, added bool, err error)
	Broadcast(ctx context.Context, id string) (rooms.Broadcast, error)
	Broadcasts(ctx context.Context, page string, limit int) ([]rooms.Broadcast, error)
	StopBroadcast(ctx context.Context, id string) (b rooms.Broadcast, stopped bool, err error)

	DelayBroadcasts(ctx context.Context, page string, until time.Time) error
	ClaimBroadcasts(ctx context.Context, holder string, lease time.Duration) (rooms.Claim, error)
	ReleaseBroadcasts(ctx context.Context, holder string, ids ...string) error
	NextRecipients(ctx context.Context, holder string, turns []rooms.Lookup) ([]rooms.Recipients, error)
	AdvanceBroadcasts(ctx context.Context, holder string, steps []rooms.Progress) ([]rooms.BroadcastState, error)
}

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
}

// accepted is an answer to what will happen later.
type accepted struct{ answer any }

// errTaken: the id is that of another broadcast.
var errTaken = errors.New("id: is that of a broadcast with another page, room, text, rate or deadline")

// partsOf are the messages that one recipient of a text gets.
func partsOf(text string) []string { return plaintext.Split(text, fanout.MaxText) }

// check fills in what is missing and names what is wrong; the deadline is
// another matter.
func (b *Broadcast) check(limit float64) error {
	b.Text = plaintext.Clean(b.Text)
	switch {
	case b.Page == "":
		return badField("page", "must be given")
	case b.Room < 0:
		return badField("room", "must be a room's number, or 0 for all")
	case b.Text == "":
		return badField("text", "must have something readable")
	}
	if b.Rate == 0 {
		b.Rate = min(defaultRate, limit)
	}
	if !(b.Rate > 0 && b.Rate <= limit) {
		return badField("rate", "must be above 0 and at most %g messages per second", limit)
	}
	if b.ID == "" {
		b.ID = rand.Text()
	}
	if len(b.ID) > maxBroadcastID || strings.ContainsFunc(b.ID, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) || b.ID == "." || b.ID == ".." {
		return badField("id", "must have at most %d ASCII characters, no space and no slash", maxBroadcastID)
	}
	return nil
}

// checkDeadline fills it in, and tells whether a broadcast to so many people
// can meet it.
func (b *Broadcast) checkDeadline(now time.Time, people int) error {
	left := b.Deadline.Sub(now)
	if left <= 0 || left > maxDeadline {
		return badField("deadline", "must be within the next %v", maxDeadline)
	}
	parts := len(partsOf(b.Text))
	if takes := float64(people*parts) / b.Rate; takes > left.Seconds() {
		return badField("deadline", "%d people × %d messages take %.0f s at rate %g, but %v is left",
			people, parts, takes, b.Rate, left.Round(time.Second))
	}
	return nil
}

// is tells whether the request is for the broadcast that is kept. One without a
// deadline is for that of any.
func (b *Broadcast) is(kept rooms.Broadcast) bool {
	return b.Page == kept.Page && b.Room == kept.Room && b.Text == kept.Text && b.Rate == kept.Rate &&
		(b.Deadline.IsZero() || b.Deadline.UnixMilli() == kept.Deadline.UnixMilli())
}

// postBroadcast keeps the broadcast, for the cores to work on. The same request
// again, with its id, is answered with what has become of it.
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
	if err := b.check(limit); err != nil {
		return nil, err
	}
	kept, err := c.cfg.Store.Broadcast(r.Context(), b.ID)
	if errors.Is(err, rooms.ErrUnknown) {
		kept, err = c.addBroadcast(r.Context(), &b)
	}
	switch {
	case err != nil:
		return nil, err
	case !b.is(kept):
		return nil, errTaken
	}
	return accepted{map[string]any{"id": kept.ID, "recipients": kept.Recipients, "state": kept.State}}, nil
}

// addBroadcast returns what is kept under the id, which is another broadcast if
// that came in between.
func (c *Core) addBroadcast(ctx context.Context, b *Broadcast) (rooms.Broadcast, error) {
	people, err := c.cfg.Store.Audience(ctx, b.Page, b.Room)
	if errors.Is(err, rooms.ErrUnknown) {
		return rooms.Broadcast{}, fmt.Errorf("page or room: %w", rooms.ErrUnknown)
	}
	if err != nil {
		return rooms.Broadcast{}, err
	}
	now := c.cfg.Now()
	asked := *b
	if asked.Deadline.IsZero() {
		asked.Deadline = now.Add(time.Hour)
	}
	if err := asked.checkDeadline(now, people); err != nil {
		return rooms.Broadcast{}, err
	}
	kept, added, err := c.cfg.Store.AddBroadcast(ctx, rooms.Broadcast{
		ID: b.ID, Page: b.Page, Room: b.Room, Text: b.Text, Rate: b.Rate, Deadline: asked.Deadline, Recipients: people,
	})
	if added {
		c.counts.add(rooms.RoomKey{Page: b.Page, Room: b.Room}, 0)
		c.cfg.Log.InfoContext(ctx, "broadcast accepted", "page", b.Page, "room", b.Room, "id", b.ID, "recipients", people)
		c.caster.poke()
	}
	return kept, err
}

// broadcastJSON is a broadcast in the answers of GET and DELETE.
type broadcastJSON struct {
	ID         string               `json:"id"`
	Page       string               `json:"page"`
	Room       int                  `json:"room"`
	Text       string               `json:"text,omitempty"` // missing in lists
	Rate       float64              `json:"rate"`
	Deadline   time.Time            `json:"deadline"`
	Created    time.Time            `json:"created"`
	Recipients int                  `json:"recipients"` // when it was created
	Queued     int                  `json:"queued"`     // of them, and of who came since: those whose messages are on the queue
	State      rooms.BroadcastState `json:"state"`
}

func viewOf(b rooms.Broadcast) broadcastJSON {
	return broadcastJSON{b.ID, b.Page, b.Room, b.Text, b.Rate, b.Deadline, b.Created, b.Recipients, b.Queued, b.State}
}

func (c *Core) getBroadcasts(r *http.Request) (any, error) {
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	kept, err := c.cfg.Store.Broadcasts(r.Context(), r.URL.Query().Get("page"), limit)
	if err != nil {
		return nil, err
	}
	list := make([]broadcastJSON, len(kept))
	for i, b := range kept {
		list[i] = viewOf(b)
	}
	return map[string]any{"broadcasts": list}, nil
}

func (c *Core) getBroadcast(r *http.Request) (any, error) {
	kept, err := c.cfg.Store.Broadcast(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, unknownBroadcast(err)
	}
	return viewOf(kept), nil
}

func (c *Core) deleteBroadcast(r *http.Request) (any, error) {
	kept, stopped, err := c.cfg.Store.StopBroadcast(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, unknownBroadcast(err)
	}
	if stopped {
		c.metrics.broadcasts.WithLabelValues(string(kept.State)).Inc()
	}
	return viewOf(kept), nil
}

func unknownBroadcast(err error) error {
	if errors.Is(err, rooms.ErrUnknown) {
		return fmt.Errorf("broadcast: %w", rooms.ErrUnknown)
	}
	return err
}
