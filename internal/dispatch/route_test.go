package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/sender"
)

// logged keeps the lines of a log.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

// with returns the lines that have all of the words.
func (l *logged) with(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		has := true
		for _, w := range words {
			has = has && strings.Contains(line, w)
		}
		if has {
			found = append(found, line)
		}
	}
	return found
}

func (l *logged) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// put publishes messages on a queue of the test's choice.
func (r *rig) put(name string, list ...message.Outbound) {
	r.t.Helper()
	for _, o := range list {
		body, err := o.Encode()
		if err != nil {
			r.t.Fatal(err)
		}
		if err := r.broker.Publish(context.Background(), queue.Message{Queue: name, ID: o.ID, Body: body}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestQueueForAllPages: what is put on the queue for all pages is sent, once and in
// order, by whichever dispatchers there are, and goes on when the one that moves it is
// killed or stopped.
func TestQueueForAllPages(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, nil, func(t *testing.T, r *rig) {
		feed := func() {
			for i := range 300 {
				r.put(r.top.OutboundAny(), r.copyOf(fmt.Sprint("page", i%7), message.ClassText, fmt.Sprint("u", i%21)))
			}
			r.sleep(20 * time.Second)
			r.checkSentOnce()
		}
		feed()
		r.stop(r.replicas[0])
		feed()
		r.replicas[1].link.die()
		r.replicas[1].ended = true
		r.replicas[1].cancel()
		<-r.replicas[1].done
		feed()
		if info, err := r.broker.Inspect(context.Background(), r.top.OutboundAny()); err != nil || info.Ready > 0 {
			t.Errorf("%d messages are left on the queue for all pages, %v", info.Ready, err)
		}
	})
}

// TestSickPartitionHoldsUpNoOther: a partition that takes nothing holds up nobody else's
// messages on the queue for all pages, and gets its own when it is well.
func TestSickPartitionHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		sick := r.top.OutboundOf("sick")
		r.only().link.with(func(l *link) {
			l.refuse = func(op, name string) error {
				if op == "publish" && name == sick {
					return queue.ErrRefused
				}
				return nil
			}
		})
		for i := range 2 * r.only().Prefetch {
			r.put(r.top.OutboundAny(), r.copyOf("sick", message.ClassText, fmt.Sprint("s", i)))
		}
		var ids []string
		for i := range 50 {
			o := r.copyOf("well", message.ClassText, fmt.Sprint("w", i))
			ids = append(ids, o.ID)
			r.put(r.top.OutboundAny(), o)
		}
		r.sleep(5 * time.Second)
		r.with(func() {
			for _, id := range ids {
				if r.accepted[id] != 1 {
					t.Errorf("%s was sent %d times while another partition was sick, want once", id, r.accepted[id])
				}
			}
		})
		r.only().link.with(func(l *link) { l.refuse = nil })
		r.sleep(3 * time.Minute)
		r.with(func() {
			for _, id := range r.published {
				if r.accepted[id] != 1 {
					t.Errorf("%s was sent %d times, want once", id, r.accepted[id])
				}
			}
		})
	})
}

// TestMessageOnAnotherPartition: it is sent by its page's owner, once and in order, is
// counted, and there is one line for each page.
func TestMessageOnAnotherPartition(t *testing.T) {
	t.Parallel()
	lines := new(logged)
	inBubble(t, 2, func(c *Config) { c.Log = lines.log() }, func(t *testing.T, r *rig) {
		wrong := r.top.Outbound((r.top.PartitionOf("page0") + 1) % r.top.Partitions)
		for i := range 200 {
			r.put(wrong, r.copyOf("page0", message.ClassText, fmt.Sprint("u", i%20)))
		}
		r.sleep(20 * time.Second)
		r.checkSentOnce()
		var strays float64
		for _, p := range r.replicas {
			strays += testutil.ToFloat64(p.metrics.strays)
		}
		if found := lines.with("WARN", "another partition", "page=page0", wrong); strays != 200 || len(found) != 1 {
			t.Errorf("%v strays counted and %d lines, want 200 and one", strays, len(found))
		}
		// One that was sent on already is sent where it is: its publisher has another
		// number of partitions.
		o := r.copyOf("page0", message.ClassText, "again")
		body, err := o.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m := queue.Message{Queue: wrong, ID: o.ID, Body: body, Headers: map[string]string{message.HeaderRouted: "1"}}
		if err := r.broker.Publish(context.Background(), m); err != nil {
			t.Fatal(err)
		}
		r.sleep(5 * time.Second)
		r.checkSentOnce()
	})
}

// TestWrongMessagesAreTold: each is dead without a call, and its letter and the log
// name the field, also on the queue for all pages.
func TestWrongMessagesAreTold(t *testing.T) {
	t.Parallel()
	lines := new(logged)
	set := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	change := func(c *Config) { // the bubble's clock stands in 2000, where no time is judged
		c.Log = lines.log()
		began := time.Now()
		c.Now = func() time.Time { return set.Add(time.Since(began)) }
	}
	inBubble(t, 1, change, func(t *testing.T, r *rig) {
		for body, want := range map[string]string{
			`{"id":"a","page":"1","to":"2","class":"text","text":"hi"}`:                                                     "time is missing",
			`{"id":"b","page":"1","to":"2","class":"text","text":"hi","time":1767225600}`:                                   "time 1767225600 is before 2010",
			`{"id":"c","page":"1","to":"2","class":"text","text":"hi","time":1767225600000000}`:                             "time 1767225600000000 is more than a day ahead",
			`{"id":"d","page":"1","to":"2","class":"text","text":"hi","time":1767225600000,"deadline":1767225700}`:          "deadline 1767225700 is before 2010",
			`{"id":"e","page":"1","to":"2","class":"video","text":"hi","time":1767225600000}`:                               `class "video" is unknown`,
			`{"page":"1","to":"2","class":"text","text":"hi","time":1767225600000}`:                                         "id is empty",
			`{"id":"f g","page":"1","to":"2","class":"text","text":"hi","time":1767225600000}`:                              "id must have at most 255 bytes of UTF-8, and no white space",
			`{"id":"` + strings.Repeat("x", 256) + `","page":"1","to":"2","class":"text","text":"hi","time":1767225600000}`: "id must have at most 255 bytes of UTF-8",
			`{"id":"h","page":"1","to":7,"class":"text","text":"hi","time":1767225600000}`:                                  "to must be a string, not a number",
			`{"id":"i","page":"1","to":"2","class":"text","text":"` + strings.Repeat("y", 2500) + `","time":1767225600000}`: "text has 2500 characters, at most 2000",
			`{"id":"j","page":"1","to":"2","class":"text","attachment":{"type":"template","url":"u"},"time":1767225600000}`: `attachment is of type "template"`,
			`not JSON`: "invalid character",
		} {
			for _, name := range []string{r.top.OutboundOf("1"), r.top.OutboundAny()} {
				if err := r.broker.Publish(context.Background(), queue.Message{Queue: name, ID: "sent/" + want[:2], Body: []byte(body)}); err != nil {
					t.Fatal(err)
				}
				r.sleep(2 * time.Second)
				dead := memorytest.Drain(t, r.broker, r.top.Dead())
				if len(dead) != 1 || dead[0].Headers[message.HeaderReason] != "undecodable" || !strings.Contains(dead[0].Headers[message.HeaderError], want) || string(dead[0].Body) != body {
					t.Errorf("%.80s on %s: dead = %v, want one that says %q", body, name, dead, want)
				}
			}
			if len(want) > 40 {
				want = want[:40]
			}
			if found := lines.with("ERROR", "cannot be decoded", strings.ReplaceAll(want, `"`, `\"`)); len(found) < 2 {
				t.Errorf("%.80s: %d lines say %q, want 2", body, len(found), want)
			}
		}
		if len(r.calls) > 0 {
			t.Errorf("%d calls were made, want none", len(r.calls))
		}
	})
}

// TestRefusedMessageIsTold: the API's sentence is in the letter and in the log.
func TestRefusedMessageIsTold(t *testing.T) {
	t.Parallel()
	lines := new(logged)
	inBubble(t, 1, func(c *Config) { c.Log = lines.log() }, func(t *testing.T, r *rig) {
		r.answer = func(message.Outbound, int) sender.Result {
			return sender.Classify(400, []byte(`{"error":{"message":"(#100) Length of param message[text] must be less","code":100}}`))
		}
		ids := r.text("page0", "a")
		r.sleep(5 * time.Second)
		dead := memorytest.Drain(t, r.broker, r.top.Dead())
		const want = "(#100) Length of param message[text] must be less"
		if len(dead) != 1 || !strings.Contains(dead[0].Headers[message.HeaderError], want) {
			t.Errorf("dead = %v, want one letter that says %q", dead, want)
		}
		if found := lines.with("WARN", "refused for good", ids[0], want); len(found) != 1 {
			t.Errorf("%d lines say %q of %s, want one", len(found), want, ids[0])
		}
	})
}

// TestNoFeedback: where nobody consumes inbound nothing is put there, and all else is as
// always.
func TestNoFeedback(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		inBubble(t, 1, func(c *Config) { c.NoFeedback = off }, func(t *testing.T, r *rig) {
			r.answer = func(o message.Outbound, _ int) sender.Result {
				switch o.To {
				case "gone":
					return fail(sender.RecipientGone)
				case "stopped":
					return fail(sender.PageStopped)
				}
				return sender.Result{}
			}
			r.text("page0", "gone", "a")
			r.text("page1", "stopped")
			r.sleep(30 * time.Minute)
			events, dead := r.told(), r.dead()
			if off && len(events) > 0 || !off && len(events) == 0 {
				t.Errorf("feedback off: %t, and inbound has %+v", off, events)
			}
			if len(dead) != 2 || r.accepted[r.published[1]] != 1 {
				t.Errorf("feedback off: %t: dead = %v, want two, and the other sent", off, dead)
			}
		})
	}
}

// TestFeedbackIDs: messages to two persons may have one id, and a message may be dead again.
// Each time is an event of its own.
func TestFeedbackIDs(t *testing.T) {
	t.Parallel()
	for _, outcome := range []sender.Outcome{sender.RecipientGone, sender.PageStopped} {
		inBubble(t, 1, nil, func(t *testing.T, r *rig) {
			r.fails("page0", outcome)
			if outcome == sender.PageStopped { // for so long that messages are dead
				r.text("page0", guests("before", 2)...)
				r.sleep(10 * time.Minute)
				r.told()
			}
			for _, to := range []string{"ann", "bob", "ann"} {
				o := r.copyOf("page0", message.ClassText, to)
				o.ID = "n17"
				r.publish(o)
				r.sleep(time.Minute)
			}
			told, ids := r.told(), make(map[string]bool)
			for _, e := range told {
				ids[e.ID] = true
			}
			if len(told) != 3 || len(ids) != 3 {
				t.Errorf("after %v core was told %+v, want three events with ids of their own", outcome, told)
			}
		})
	}
}

// TestBodysIDCounts: a message that was published without AMQP's message id, for which
// the broker's client makes one up, is known by its own: while it is sent, and dead.
func TestBodysIDCounts(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		for i, age := range []time.Duration{0, 2 * time.Hour} {
			o := r.copyOf("page0", message.ClassText, "u")
			o.ID, o.Time = fmt.Sprint("page0/m/", i), time.Now().Add(-age).UnixMilli()
			body, err := o.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.broker.Publish(context.Background(), queue.Message{Queue: r.top.OutboundOf("page0"), ID: fmt.Sprint("digest/", i), Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		r.sleep(5 * time.Second)
		known, err := r.only().messages(context.Background(), wanted{id: "page0/m"})
		if err != nil {
			t.Fatal(err)
		}
		found := known.Messages
		if len(found) != 1 || found[0].ID != "page0/m/0" || found[0].State != "sent" {
			t.Errorf("messages of page0/m = %+v, want page0/m/0 as sent", found)
		}
		if dead := r.dead(); len(dead) != 1 || dead["page0/m/1"].Reason != message.ReasonExpired {
			t.Errorf("dead = %+v, want page0/m/1 as expired", dead)
		}
	})
}
