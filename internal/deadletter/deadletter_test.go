package deadletter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/queue/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m) }

// bench is a dead-letter queue in memory, and the tools that look at it.
type bench struct {
	*testing.T
	broker *memory.Broker
	top    queue.Topology
	queue  Queue
}

func inBubble(t *testing.T, do func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		top := queue.Topology{Prefix: "test", Partitions: 4}
		broker := memorytest.New(t, top)
		defer broker.Close()
		do(&bench{t, broker, top, Queue{Broker: broker, Now: time.Now}})
	})
}

// kill puts a copy on the dead-letter queue and returns its id.
func (b *bench) kill(n int, page string, death message.Death) string {
	b.Helper()
	o := message.Outbound{
		ID: fmt.Sprintf("%s/m%d/7", page, n), Page: page, To: "7", Class: message.ClassText, Text: "hello",
		Time: time.Now().Add(-time.Hour).UnixMilli(), Attempts: 3, FirstCode: "2",
	}
	body, err := o.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.put(o.ID, body, death.Headers())
	return o.ID
}

func (b *bench) put(id string, body []byte, headers map[string]string) {
	b.Helper()
	if err := b.broker.Publish(b.Context(), queue.Message{Queue: b.top.Dead(), ID: id, Body: body, Headers: headers}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) list(f Filter) (ids []string, counts Counts) {
	b.Helper()
	counts, err := b.queue.List(b.Context(), f, func(l Letter) error {
		ids = append(ids, l.ID)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return ids, counts
}

// left are the ids on a queue, which is empty then.
func (b *bench) left(name string) (ids []string) {
	b.Helper()
	for _, m := range memorytest.Drain(b.T, b.broker, name) {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestListLeavesAllInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		var want []string
		for i := range 10 {
			want = append(want, b.kill(i, "1", message.Death{Reason: message.ReasonGone}))
		}
		for range 2 {
			if got, counts := b.list(Filter{}); !slices.Equal(got, want) || counts[message.ReasonGone] != 10 {
				b.Errorf("List() shows %v and counts %v, want %v", got, counts, want)
			}
		}
		if got := b.left(b.top.Dead()); !slices.Equal(got, want) {
			b.Errorf("left = %v, want %v", got, want)
		}
	})
}

// A second subscription holds letters that the first cannot, and the order stays.
func TestManyPages(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		var keep []string
		for i := range 50 {
			id := b.kill(i, fmt.Sprint(i%5), message.Death{Reason: message.ReasonGone})
			if i%5 != 0 {
				keep = append(keep, id)
			}
		}
		seen := 0
		err := b.queue.walk(b.Context(), 7, func(d *queue.Delivery) (bool, error) {
			seen++
			if Read(d, b.top).Page != "0" {
				return false, nil
			}
			return true, d.Ack()
		}, nothing)
		if err != nil || seen != 50 {
			b.Errorf("walk() = %v after %d letters, want nil after 50", err, seen)
		}
		if got := b.left(b.top.Dead()); !slices.Equal(got, keep) {
			b.Errorf("left = %v, want %v", got, keep)
		}
	})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		old := b.kill(1, "1", message.Death{Reason: message.ReasonExpired, Time: time.Now().Add(-3 * time.Hour)})
		before := b.kill(2, "2", message.Death{Reason: message.ReasonGone}) // of an older version: its event is an hour old
		young := b.kill(3, "1", message.Death{Reason: message.ReasonGone, Time: time.Now().Add(-time.Minute)})
		b.put("raw", []byte("{"), message.Death{Reason: message.ReasonUndecodable}.Headers())
		b.put("limit", []byte("{"), nil) // moved by the broker
		for _, tc := range []struct {
			name string
			f    Filter
			want []string
		}{
			{"all", Filter{}, []string{old, before, young, "raw", "limit"}},
			{"id", Filter{IDs: []string{before}}, []string{before}},
			{"two ids", Filter{IDs: []string{young, old}}, []string{old, young}},
			{"reason", Filter{Reasons: []message.Reason{message.ReasonGone}}, []string{before, young}},
			{"two reasons", Filter{Reasons: []message.Reason{message.ReasonExpired, message.ReasonUndecodable}}, []string{old, "raw"}},
			{"page", Filter{Page: "2"}, []string{before}},
			{"older", Filter{Older: 30 * time.Minute}, []string{old, before}},
			{"newer", Filter{Newer: 2 * time.Hour}, []string{before, young}},
			{"both ages", Filter{Older: 30 * time.Minute, Newer: 2 * time.Hour}, []string{before}},
			{"before", Filter{Before: time.Now().Add(-time.Minute)}, []string{old, before, "raw", "limit"}},
			{"page and reason", Filter{Page: "1", Reasons: []message.Reason{message.ReasonGone}}, []string{young}},
			{"nothing", Filter{Page: "3"}, nil},
		} {
			if got, _ := b.list(tc.f); !slices.Equal(got, tc.want) {
				b.Errorf("%s: List() shows %v, want %v", tc.name, got, tc.want)
			}
		}
	})
}

func TestPurge(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.kill(1, "1", message.Death{Reason: message.ReasonGone})
		keep := b.kill(2, "2", message.Death{Reason: message.ReasonExpired})
		b.kill(3, "1", message.Death{Reason: message.ReasonExpired})
		got, err := b.queue.Purge(b.Context(), Filter{Page: "1"})
		if err != nil {
			b.Fatal(err)
		}
		if diff := cmp.Diff(Counts{message.ReasonGone: 1, message.ReasonExpired: 1}, got); diff != "" {
			b.Errorf("Purge(): -want +got\n%s", diff)
		}
		if got := b.left(b.top.Dead()); !slices.Equal(got, []string{keep}) {
			b.Errorf("left = %v, want %v", got, keep)
		}
	})
}

// Two tools that look at the queue at once would each see a part of it.
func TestInUse(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.kill(1, "1", message.Death{Reason: message.ReasonGone})
		_, err := b.queue.List(b.Context(), Filter{}, func(Letter) error {
			_, err := b.queue.Purge(b.Context(), Filter{})
			return err
		})
		if !errors.Is(err, ErrInUse) {
			b.Errorf("Purge() meanwhile = %v, want ErrInUse", err)
		}
	})
}

// Letters that a length limit drops meanwhile are not waited for.
func TestLettersThatAreDropped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		id := b.kill(1, "1", message.Death{Reason: message.ReasonGone})
		w := walker{queue: b.queue, prefetch: 2, ready: 2}
		defer w.close(b.Context())
		if d, err := w.next(b.Context()); err != nil || d.ID != id {
			b.Fatalf("next() = %v, %v, want the letter", d, err)
		}
		if d, err := w.next(b.Context()); d != nil || err != nil {
			b.Errorf("next() = %v, %v, want nil, nil", d, err)
		}
	})
}

func TestReplay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		first := b.kill(1, "1", message.Death{Reason: message.ReasonExhausted, Queue: "test.lane.text.1"})
		const raw = "undecodable/1" // webhook's
		b.put(raw, []byte("{"), message.Death{Reason: message.ReasonUndecodable, Queue: b.top.Inbound(0)}.Headers())
		other := b.kill(2, "1", message.Death{Reason: message.ReasonGone})
		event, err := message.Event{Kind: message.KindMessage, Page: "1", ID: "m", User: "7", Time: 5, Text: "x"}.Encode()
		if err != nil {
			b.Fatal(err)
		}
		trace := map[string]string{message.HeaderTrace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
		b.put("1/m", event, message.CarryTrace(message.Death{Reason: message.ReasonBadMessage, Queue: b.top.Inbound(0)}.Headers(), trace))
		last := b.kill(3, "1", message.Death{Reason: message.ReasonExhausted})

		got, err := b.queue.Replay(b.Context(), Replay{Rate: 100, Filter: Filter{
			Reasons: []message.Reason{message.ReasonExhausted, message.ReasonUndecodable, message.ReasonBadMessage},
		}})
		if err != nil {
			b.Fatal(err)
		}
		want := Outcome{
			Replayed: Counts{message.ReasonExhausted: 2, message.ReasonBadMessage: 1},
			Kept:     Counts{message.ReasonUndecodable: 1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("Replay(): -want +got\n%s", diff)
		}
		sent := memorytest.Drain(b.T, b.broker, b.top.OutboundOf("1"))
		if len(sent) != 2 || sent[0].ID != first || sent[1].ID != last {
			b.Fatalf("sent = %v, want %s and %s", sent, first, last)
		}
		o, err := message.DecodeOutbound(sent[0].Body)
		if err != nil || o.ID != first || o.Attempts != 0 || o.FirstCode != "" || o.Age(time.Now()) != time.Hour || len(sent[0].Headers) != 0 {
			b.Errorf("sent %+v with %v, %v, want it an hour old, without attempts and headers", o, sent[0].Headers, err)
		}
		if in := memorytest.Drain(b.T, b.broker, b.top.InboundOf("1")); len(in) != 1 || in[0].ID != "1/m" || !maps.Equal(in[0].Headers, trace) {
			b.Errorf("inbound has %v, want the event with its trace", in)
		}
		if got := b.left(b.top.Dead()); !slices.Equal(got, []string{raw, other}) {
			b.Errorf("left = %v, want %s and %s", got, raw, other)
		}
	})
}

// A letter that neither webhook nor core could decode is replayed: another version may.
func TestReplayUndecodable(t *testing.T) {
	t.Parallel()
	const item = `{"sender":{"id":"7"},"recipient":{"id":"1"},"timestamp":5,"message":{"mid":"m%d","text":"x"}}`
	part := func(i int) string { return fmt.Sprintf(item, i) }
	inBubble(t, func(b *bench) {
		death := message.Death{Reason: message.ReasonUndecodable, Queue: b.top.Inbound(0)}.Headers()
		b.put("undecodable/entries", []byte(`{"object":"page","entry":[{"id":"1","messaging":[`+part(1)+`]},{"id":"1","messaging":[`+part(2)+`,`+part(3)+`]}]}`), death)
		b.put("undecodable/body", []byte(`{"object":"page","entry":[{"id":"1","messaging":[`+part(4)+`]}]}`), death)
		b.put("undecodable/no", []byte(`{"object":"page","entry":[{"id":"1","messaging":[`+part(5)+`,7]}]}`), death)
		b.put("1/m6", []byte(`{"kind":"new"}`), message.Death{Reason: message.ReasonUndecodable, Queue: b.top.Prefix + ".inbound"}.Headers())
		copied := message.Death{Reason: message.ReasonUndecodable, Queue: b.top.Outbound(1)}.Headers()
		b.put("1/m7/7", []byte(`{"new":1}`), copied)
		got, err := b.queue.Replay(b.Context(), Replay{Rate: 100})
		if err != nil {
			b.Fatal(err)
		}
		want := Outcome{Replayed: Counts{message.ReasonUndecodable: 3}, Kept: Counts{message.ReasonUndecodable: 2}}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("Replay(): -want +got\n%s", diff)
		}
		var in []string
		list := memorytest.Drain(b.T, b.broker, b.top.InboundOf("1"))
		for _, m := range append(list, memorytest.Drain(b.T, b.broker, b.top.InboundOf(""))...) {
			in = append(in, m.ID)
			if e, err := message.DecodeEvent(m.Body); m.ID != "1/m6" && (err != nil || m.ID != e.Page+"/"+e.ID || e.User != "7") {
				b.Errorf("inbound has %s as %+v, %v, want the event", m.ID, e, err)
			} else if m.ID == "1/m6" && string(m.Body) != `{"kind":"new"}` {
				b.Errorf("inbound has %s, want it unchanged", m.Body)
			}
		}
		if want := []string{"1/m1", "1/m2", "1/m3", "1/m4", "1/m6"}; !slices.Equal(in, want) {
			b.Errorf("inbound has %v, want %v", in, want)
		}
		if got, want := b.left(b.top.Dead()), []string{"undecodable/no", "1/m7/7"}; !slices.Equal(got, want) {
			b.Errorf("left = %v, want %v", got, want)
		}
	})
}

// More letters that are not meant than one subscription holds must not keep those back
// that are.
func TestReplayOfFew(t *testing.T) {
	t.Parallel()
	for name, meant := range map[string]func(i int) bool{
		"ten":       func(i int) bool { return i%120 == 119 },
		"each half": func(i int) bool { return i%2 == 0 },
		"the first": func(i int) bool { return i == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(b *bench) {
				const letters = takePrefetch*6/5 + 1
				want := 0
				for i := range letters {
					death := message.Death{Reason: message.ReasonGone}
					if meant(i) {
						want++
						death.Reason = message.ReasonPageStopped
					}
					b.kill(i, "1", death)
				}
				ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
				defer cancel()
				got, err := b.queue.Replay(ctx, Replay{Rate: 100, Filter: Filter{Reasons: []message.Reason{message.ReasonPageStopped}}})
				if err != nil || got.Replayed.Total() != want {
					b.Errorf("Replay() = %v, %v, want %d", got, err, want)
				}
				if left := len(b.left(b.top.Dead())); left != letters-want {
					b.Errorf("%d letters are left, want %d", left, letters-want)
				}
			})
		})
	}
}

// The rate holds for the whole, and nothing is sent in a burst.
func TestReplayRateAndLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		for i := range 100 {
			b.kill(i, "1", message.Death{Reason: message.ReasonExhausted})
		}
		begin := time.Now()
		for i, limit := range []int{35, 0} {
			if _, err := b.queue.Replay(b.Context(), Replay{Rate: 20, Limit: limit}); err != nil {
				b.Fatal(err)
			}
			if n := len(b.left(b.top.OutboundOf("1"))); n != []int{35, 65}[i] {
				b.Errorf("replay %d sent %d letters", i, n)
			}
		}
		// Two letters each tenth of a second, the first at once.
		if took, want := time.Since(begin), 17*100*time.Millisecond+32*100*time.Millisecond; took != want {
			b.Errorf("replays took %v, want %v", took, want)
		}
	})
}

func TestReplayStopped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		for i := range 10 {
			b.kill(i, "1", message.Death{Reason: message.ReasonExhausted})
		}
		ctx, stop := context.WithTimeout(b.Context(), 350*time.Millisecond)
		defer stop()
		got, err := b.queue.Replay(ctx, Replay{Rate: 10})
		if !errors.Is(err, context.DeadlineExceeded) || got.Replayed.Total() != 4 {
			b.Errorf("Replay() = %v, %v, want 4 and DeadlineExceeded", got, err)
		}
		if sent, left := len(b.left(b.top.OutboundOf("1"))), len(b.left(b.top.Dead())); sent != 4 || left != 6 {
			b.Errorf("%d are sent and %d are left, want 4 and 6", sent, left)
		}
	})
}

// Nothing is replayed where the deployment has another number of partitions.
func TestReplayChecksPartitions(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{3, 5} {
		inBubble(t, func(b *bench) {
			b.kill(1, "1", message.Death{Reason: message.ReasonExhausted})
			q := Queue{Broker: otherPartitions{b.broker, partitions}, Now: time.Now}
			if _, err := q.Replay(b.Context(), Replay{Rate: 1}); err == nil {
				b.Errorf("Replay() with %d partitions of 4 = nil, want an error", partitions)
			}
			if n := len(b.left(b.top.Dead())); n != 1 {
				b.Errorf("%d letters are left, want 1", n)
			}
		})
	}
}

type otherPartitions struct {
	*memory.Broker
	n int
}

func (o otherPartitions) Topology() queue.Topology {
	return queue.Topology{Prefix: o.Broker.Topology().Prefix, Partitions: o.n}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	top := queue.Topology{Prefix: "test", Partitions: 4}
	now := time.UnixMilli(10_000_000)
	copied := message.Outbound{ID: "a", Page: "1", To: "2", Class: message.ClassText, Text: "x", Time: 1}
	broadcast := copied
	broadcast.Broadcast, broadcast.Deadline = "b", 2
	event := message.Event{Kind: message.KindMessage, Page: "1", ID: "m", User: "2", Time: 1}
	report := message.Event{Kind: message.KindFeedback, Page: "1", ID: "m", User: "2", Time: 1}
	for name, tc := range map[string]struct {
		letter         Letter
		time, deadline int64
	}{
		"copy":      {Letter{copy: &copied}, now.UnixMilli(), 0},
		"broadcast": {Letter{copy: &broadcast}, now.UnixMilli(), now.Add(time.Hour).UnixMilli()},
		"event":     {Letter{event: &event}, now.UnixMilli(), 0},
		"report":    {Letter{event: &report}, 1, 0},
	} {
		list, err := tc.letter.Revive(top, now)
		if err != nil || len(list) != 1 {
			t.Fatalf("Revive() = %v, %v, want one message", list, err)
		}
		msg := list[0]
		if o, err := message.DecodeOutbound(msg.Body); err == nil {
			if o.Time != tc.time || o.Deadline != tc.deadline {
				t.Errorf("%s: renewed to %d, deadline %d, want %d and %d", name, o.Time, o.Deadline, tc.time, tc.deadline)
			}
		} else if e, err := message.DecodeEvent(msg.Body); err != nil || e.Time != tc.time {
			t.Errorf("%s: renewed to %d, %v, want %d", name, e.Time, err, tc.time)
		}
	}
	if copied.Time != 1 || event.Time != 1 {
		t.Error("Revive() changed the letter")
	}
}

// TestReviveAll: a post that a webhook with WEBHOOK_EVENTS=all could not decode becomes the
// events that it would have made of it, and that of another one those that core knows.
func TestReviveAll(t *testing.T) {
	t.Parallel()
	body := []byte(`{"object":"page","entry":[{"id":"1","messaging":[{"sender":{"id":"7"},"message":{"mid":"m","text":"x"}},{"sender":{"id":"7"},"read":{"watermark":1}}]}]}`)
	top := queue.Topology{Prefix: "test", Partitions: 4}
	for id, raw := range map[string][]bool{"undecodable/all/1": {true, true}, "undecodable/1": {false}} {
		death := message.Death{Reason: message.ReasonUndecodable, Queue: top.Inbound(0)}
		list, err := Read(queue.NewDelivery(nil, nil, 1, queue.Message{ID: id, Body: body, Headers: death.Headers()}, false), top).Revive(top, time.Time{})
		var got []bool
		for _, m := range list {
			e, err := message.DecodeEvent(m.Body)
			got = append(got, err == nil && len(e.Raw) > 0)
		}
		if err != nil || !slices.Equal(got, raw) {
			t.Errorf("Revive() of %s = %s, %v, want with raw: %v", id, list, err, raw)
		}
	}
}

// FuzzRead: whatever is on the queue can be shown, and what can be replayed is
// what was there.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"id":"a","page":"1","to":"2","class":"text","text":"x"}`), "gone", "2026-01-02T15:04:05.000Z")
	f.Add([]byte(`{"kind":"message","page":"1","id":"2","user":"3","text":"x"}`), "", "")
	f.Add([]byte("{"), "undecodable", "yesterday")
	top := queue.Topology{Prefix: "test", Partitions: 4}
	f.Fuzz(func(t *testing.T, body []byte, reason, at string) {
		d := queue.NewDelivery(nil, nil, 1, queue.Message{ID: "x", Body: body, Headers: map[string]string{
			message.HeaderReason: reason, message.HeaderAttempts: "1", message.HeaderTime: at,
		}}, false)
		l := Read(d, top)
		list, err := l.Revive(top, time.Time{})
		if err != nil {
			return
		}
		for _, msg := range list {
			if err := msg.Validate(); err != nil {
				t.Fatalf("Revive() = %v", err)
			}
			again := Read(queue.NewDelivery(nil, nil, 1, msg, false), top)
			if !l.raw && (again.Page != l.Page || again.Recipient != l.Recipient) {
				t.Errorf("page %q and recipient %q became %q and %q", l.Page, l.Recipient, again.Page, again.Recipient)
			}
		}
	})
}

// Where fewer letters come than there were, what was seen is not told as all.
func TestMissingLetters(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		for i := range 5 {
			b.kill(i, "1", message.Death{Reason: message.ReasonGone})
		}
		seen := 0
		err := b.queue.walk(b.Context(), 2, func(*queue.Delivery) (bool, error) {
			if seen++; seen == 1 {
				b.left(b.top.Dead()) // the three that the walk does not hold
			}
			return false, nil
		}, nothing)
		if seen != 2 || err == nil || !strings.Contains(err.Error(), "2 of 5") {
			t.Errorf("walk() = %v after %d letters, want an error that says 2 of 5", err, seen)
		}
	})
}
