package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"chatclub/internal/command"
	"chatclub/internal/fanout"
	"chatclub/internal/message"
	"chatclub/internal/phrase"
	"chatclub/internal/queue"
	"chatclub/internal/rooms"
)

// relay handles the events of users: it makes their messages and publishes them.
type relay struct {
	cfg      Config
	metrics  *metrics
	retry    retrier
	backlog  *Backlog
	pressure *pressure
	floods   *floods
}

// handle returns nil after the messages of an event are confirmed and the event
// is marked as finished.
func (r *relay) handle(run, work context.Context, in inbound) error {
	ev := r.eventOf(in.event)
	if len(ev.User) > message.MaxUserID || message.MaxCopyID(ev.Page, ev.ID) > queue.MaxName {
		return fmt.Errorf("%w: page, user or id is too long for the ids of its copies", rooms.ErrData)
	}
	if r.floods.refuses(r.cfg.Now(), ev) {
		r.observe(ev, rooms.Result{Rejected: true, Why: rooms.Flood})
		return nil
	}
	res, err := r.receive(run, work, in, ev)
	if err != nil {
		return err
	}
	r.floods.note(r.cfg.Now(), ev, res.Refused)
	if res.Status == rooms.Finished {
		r.metrics.repeated.Inc()
		r.cfg.Log.LogAttrs(run, slog.LevelDebug, "event was finished before", slog.String("id", in.delivery.ID))
		return nil
	}
	r.observe(ev, res)
	room := rooms.RoomKey{Page: ev.Page, Room: res.Room.Number}
	answer, said := r.say(in.event, ev, res)
	copies := said.Copies(in.event, res.Relay)
	var late int     // texts that are left out
	var left leftOut // that the room is told now
	if ev.IsMessage() && len(copies) > 0 {
		if n := texts(copies); r.isLate(ev, res, n) {
			late, copies = n, nil
		} else if left = r.backlog.leftOut(r.cfg.Now(), room); left.events > 0 {
			copies = said.Then(r.missed(left)).Copies(in.event, res.Relay)
		}
	}
	out := slices.Concat(answer, copies)
	msgs, err := r.encode(out)
	if err != nil {
		return err
	}
	if err := r.publish(run, work, in, msgs); err != nil {
		return err
	}
	made := texts(out)
	if r.cfg.FreshWithin > 0 {
		r.backlog.Add(r.cfg.Now(), ev.Page, made)
	}
	r.pressure.add(r.cfg.Now(), ev.Page, message.ClassText, made)
	r.pressure.add(r.cfg.Now(), ev.Page, message.ClassMedia, len(out)-made)
	if left.events > 0 {
		r.backlog.told(room)
		r.cfg.Log.WarnContext(run, "messages of a room were left out: they would have come late", "page", ev.Page, "room", room.Room,
			"messages", left.events, "copies", left.copies)
	}
	r.cfg.Log.LogAttrs(run, slog.LevelDebug, "event copied", slog.String("id", in.delivery.ID), slog.Int("copies", len(msgs)))
	count := rooms.Count{Copies: int64(len(msgs))}
	if ev.IsMessage() && !res.Rejected {
		count.Events = 1
	}
	r.cfg.Counter.Add(room, count)
	if err := r.retry.do(run, in.delivery.Live, stepDone, func() error { return r.cfg.Store.Done(work, ev.Page, ev.ID) }); err != nil {
		return err // its copies are made when it comes again
	}
	if late > 0 {
		r.leaveOut(run, in, room, late)
	}
	return nil
}

// isLate reports whether the copies of a message are left out, because some of its texts
// would come later than FreshWithin after it was written: its page has more than it can
// send, and old messages left out make room for new ones. The copies of a begun event are
// made again, because some may be on their way; so are those of an event with another
// name, which nothing else would tell.
func (r *relay) isLate(ev rooms.Event, res rooms.Result, texts int) bool {
	if r.cfg.FreshWithin == 0 || res.Status == rooms.Unfinished || res.Was != "" {
		return false
	}
	return r.backlog.IsLate(r.cfg.Now(), ev.At, ev.Page, texts, r.cfg.FreshWithin)
}

// texts is the number of messages that count for a page's limit of texts. No dispatcher
// tells the backlog of audio and video.
func texts(list []message.Outbound) (n int) {
	for i := range list {
		if list[i].Class == message.ClassText {
			n++
		}
	}
	return n
}

// leaveOut counts and logs a message whose copies are left out.
func (r *relay) leaveOut(run context.Context, in inbound, room rooms.RoomKey, copies int) {
	r.metrics.leftOut.Inc()
	r.metrics.leftOutCopies.Add(float64(copies))
	r.cfg.Log.LogAttrs(run, slog.LevelDebug, "event left out", slog.String("id", in.delivery.ID), slog.Int("copies", copies))
	if r.backlog.leaveOut(r.cfg.Now(), room, copies) {
		r.cfg.Log.WarnContext(run, "messages of a room are left out: they would come late", "page", room.Page, "room", room.Room,
			"id", in.delivery.ID, "bound", r.cfg.FreshWithin)
	}
}

// eventOf returns an event of a user in rooms' form.
func (r *relay) eventOf(ev message.Event) rooms.Event {
	out := rooms.Event{Page: ev.Page, User: ev.User, ID: ev.ID, At: notAfter(ev.Time, r.cfg.Now().Add(maxAhead))}
	// A locale in a language without texts is left out, so that Config.Language
	// applies.
	if l := phrase.Language(ev.Locale); strings.HasPrefix(strings.ToLower(ev.Locale), l) {
		out.Lang = l
	}
	if ev.Kind == message.KindIdle {
		out.Idle = true
		return out
	}
	out.Command = command.Parse(ev.Text, ev.Payload)
	out.Files = fanout.Links(ev.Attachments)
	// A button without a command lets the user in, as Messenger's "Get Started"
	// does.
	if out.Command.Kind == command.None && ev.Kind == message.KindPostback {
		out.Command = command.Command{Kind: command.Start}
	}
	r.setShare(&out, ev)
	return out
}

// setShare sets what an event takes of its page's limits, as they are now.
func (r *relay) setShare(out *rooms.Event, ev message.Event) {
	if r.cfg.NoShare {
		return
	}
	l := r.cfg.Limits.Of(ev.Page)
	out.Line = fanout.LineTime(l)
	out.Pressed = func(texts, media time.Duration) (bool, bool) {
		more := func(class message.Class, d time.Duration) bool {
			n := int(math.Round(d.Seconds() * l.Of(string(class))))
			return r.pressure.isOn(r.cfg.Now(), ev.Page, class, n)
		}
		return more(message.ClassText, texts), more(message.ClassMedia, media)
	}
	if !out.IsMessage() {
		return
	}
	out.Limits = rooms.Limits{Text: l.Text, Media: l.Media}
	text := out.Command.Text
	out.Time = func(copies int) (time.Duration, time.Duration) { return fanout.Time(ev, text, l, copies) }
	out.Least = func(copies int) time.Duration { return fanout.LeastTime(l, copies) }
}

// most returns how much of a message each recipient gets at most, by the page's limits when
// it came first: an event that is handled again makes the same copies.
func (r *relay) most(ev rooms.Event, res rooms.Result) fanout.Most {
	l := res.Limits
	if l == (rooms.Limits{}) { // an older core began it, or there are none
		l = ev.Limits
	}
	return fanout.MostOf(message.Limits{Text: l.Text, Media: l.Media}, len(res.Relay))
}

// receive records the event. One that was begun before and is not finished has its copies
// made again: the core that began it is gone, or is this one, because a page's events are
// handled one after another.
func (r *relay) receive(run, work context.Context, in inbound, ev rooms.Event) (res rooms.Result, err error) {
	err = r.retry.do(run, in.delivery.Live, stepReceive, func() (err error) {
		res, err = r.cfg.Store.Receive(work, ev)
		return err
	})
	return res, err
}

// observe counts an event and its result in the metrics.
func (r *relay) observe(ev rooms.Event, res rooms.Result) {
	if res.Status == rooms.Unfinished {
		r.metrics.reproduced.Inc()
		return
	}
	if kind := ev.Command.Kind; kind != command.None && kind != command.Start {
		r.metrics.commands.WithLabelValues(kind.String()).Inc()
	}
	if res.Joined {
		r.metrics.joins.Inc()
	}
	if res.Why != "" {
		r.metrics.rejected.WithLabelValues(string(res.Why)).Inc()
	}
	if res.Notice == rooms.LeftIdle {
		r.metrics.idle.Inc()
	}
}

// say returns the answer to an event's user, and the messages to the others of its room: the
// first may tell that the user has another name. The answer says why a message, or a
// part, is not passed on.
func (r *relay) say(in message.Event, ev rooms.Event, res rooms.Result) ([]message.Outbound, fanout.Said) {
	answer := newReply(ev, res, r.cfg.Language, r.cfg.Idle)
	var said fanout.Said
	if res.Was != "" {
		said = fanout.Rename(res.Was, res.Name)
	}
	if ev.IsMessage() && !res.Rejected && !res.Paused {
		text, told := fanout.Say(in, res.Name, ev.Command.Text, r.most(ev, res))
		if told != "" {
			answer.say(told, nil)
		}
		said = said.Then(text)
	}
	return fanout.Notice(in, in.User, strings.Join(answer.texts, "\n"), answer.buttons...), said
}

// missed tells how many messages before one were left out. It goes behind that one, whose
// own ids stay so when the event is handled again.
func (r *relay) missed(left leftOut) fanout.Said {
	return fanout.Missed(phrase.Text(r.cfg.Language, phrase.LeftOut, phrase.Args{"n": left.events}))
}

// publish publishes the messages of an event until all are confirmed. After an
// error only those are published again that may not be queued.
func (r *relay) publish(run, work context.Context, in inbound, msgs []queue.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	span := r.cfg.Tracer.Send(work, msgs[0].Queue, len(msgs))
	defer span.End()
	span.Inject(msgs)
	rest := msgs
	err := r.retry.do(run, in.delivery.Live, stepPublish, func() error {
		err := r.cfg.publish(work, rest)
		rest = queue.Unconfirmed(rest, err)
		if errors.Is(err, queue.ErrInvalid) { // at each new try
			err = fmt.Errorf("%w: %w", rooms.ErrData, err)
		}
		return err
	})
	if err != nil {
		span.Fail("unconfirmed")
		return err
	}
	r.metrics.copies.Add(float64(len(msgs)))
	return nil
}

// encode returns the messages for the queue, each for its page's partition.
func (r *relay) encode(copies []message.Outbound) ([]queue.Message, error) {
	top := r.cfg.Broker.Topology()
	msgs := make([]queue.Message, len(copies))
	for i, o := range copies {
		body, err := o.Encode()
		if err != nil { // would fail the same way every time
			return nil, fmt.Errorf("%w: %w", rooms.ErrData, err)
		}
		msgs[i] = queue.Message{Queue: top.OutboundOf(o.Page), ID: o.ID, Body: body}
	}
	return msgs, nil
}
