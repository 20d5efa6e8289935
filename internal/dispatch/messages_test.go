package dispatch

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/sender"
)

// TestMessagesHandler: of an event's copies a dispatcher knows which it has sent, which
// are in a call, and which wait. Those of another event are left out.
func TestMessagesHandler(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.latency = func(o message.Outbound) time.Duration {
			if o.To == "slow" {
				return 5 * time.Second
			}
			return 40 * time.Millisecond
		}
		began := time.Now()
		for _, id := range []string{"p/m1/quick", "p/m1/slow", "p/m10/other", "p/m2/slow", "order-17"} {
			o := r.copyOf("p", message.ClassText, path.Base(id))
			if o.ID, o.Joins = id, false; id == "order-17" {
				o.To = "slow"
			}
			r.publish(o)
		}
		r.sleep(time.Second)
		h := r.only().MessagesHandler()
		get := func(id string) (answer Messages) {
			t.Helper()
			if !strings.Contains(id, "=") {
				id = "id=" + id
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/messages?"+id, nil))
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
				t.Fatalf("GET /messages?%s = %d %q, %v", id, w.Code, w.Body, err)
			}
			return answer
		}
		want := func(id string, states map[string]string) {
			t.Helper()
			answer := get(id)
			for _, m := range answer.Messages {
				if m.State != states[m.ID] || m.Attempt != 1 || m.State != "sent" && (m.Queue != r.top.OutboundOf("p") || m.Age < 1) ||
					m.State == "sent" && m.SentAt.Before(began) {
					t.Errorf("of %s: %+v, want it %q", id, m, states[m.ID])
				}
			}
			if len(answer.Messages) != len(states) || answer.SentSince.After(began) {
				t.Errorf("messages of %s = %+v, want %v, since the start", id, answer, states)
			}
		}
		want("p/m1", map[string]string{"p/m1/quick": "sent", "p/m1/slow": "calling"})
		want("p/m2", map[string]string{"p/m2/slow": "waiting"})
		want("order-17", map[string]string{"order-17": "waiting"})
		if m := get("order-17").Messages[0]; m.Reason != WaitsForAnswer || get("p/m1/slow").Messages[0].Reason != "" {
			t.Errorf("order-17 waits for %q, want for the answer to the call before it, and the call for nothing", m.Reason)
		}
		if s, err := r.only().status(t.Context()); err != nil || len(s.Pages) != 1 || s.Pages[0].Oldest < 1 || !s.Pages[0].Owner {
			t.Errorf("status = %+v, %v, want this page's owner, and the age of what waits for the answer", s.Pages, err)
		}
		want("p/m3", nil)
		want("to=slow", map[string]string{"p/m1/slow": "calling", "p/m2/slow": "waiting", "order-17": "waiting"})
		want("to=slo", nil)
		if m := get("to=quick").Messages[0]; m.Page != "p" || m.To != "quick" {
			t.Errorf("message to quick = %+v, want its page and person", m)
		}
		r.sleep(10 * time.Second)
		want("p/m2", map[string]string{"p/m2/slow": "sent"})
		for _, query := range []string{"id=", "id=p/m1&to=slow"} {
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/messages?"+query, nil)); w.Code != 400 {
				t.Errorf("GET /messages?%s = %d, want 400", query, w.Code)
			}
		}
	})
}

// TestWhyMessage: a message behind others of its page waits for what they wait for.
func TestWhyMessage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		for i := range 900 {
			r.publish(r.copyOf("p", message.ClassText, fmt.Sprint(i)))
		}
		r.sleep(time.Second)
		count := func() map[Reason]int {
			t.Helper()
			w, known := httptest.NewRecorder(), make(map[Reason]int)
			r.only().MessagesHandler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/messages?id=p", nil))
			var answer Messages
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			for _, m := range answer.Messages {
				if m.State == "waiting" {
					known[m.Reason]++
				}
			}
			return known
		}
		if got := count(); len(got) != 1 || got[WaitsForLimit] < 100 {
			t.Errorf("messages of a page above its limit wait for %v, want all for the limit", got)
		}
	})
}

// TestExplain: every reason has words of its own, and says what to do or ends alone.
func TestExplain(t *testing.T) {
	t.Parallel()
	runbook, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]Reason)
	for _, r := range append(reasons(), WaitsForTime) {
		x := r.Explain()
		if x.Short == "" || x.Do == "" && !x.Alone || seen[x.Waits] != "" {
			t.Errorf("%s.Explain() = %+v, want words of its own, and what to do", r, x)
		}
		seen[x.Waits] = r
		if x.Runbook != "" && !strings.Contains(string(runbook), "\n## "+x.Runbook+"\n") {
			t.Errorf("%s.Explain() leads to %s, which the runbook does not have", r, x.Runbook)
		}
	}
}

// What was sent is remembered up to a number, and it is known since when.
func TestSentLogIsBounded(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	s := sentLog{since: start}
	at := func(i int) time.Time { return start.Add(time.Duration(i+1) * time.Second) }
	for i := range sentKept + 3 {
		if s.add(&held{delivery: &queue.Delivery{Message: queue.Message{ID: "p/m/u"}}}, at(i)); i < sentKept && !s.since.Equal(start) {
			t.Fatalf("since = %v after %d, want the start", s.since, i)
		}
	}
	if len(s.list) != sentKept || !s.since.Equal(at(2)) {
		t.Errorf("%d are kept since %v, want %d since %v", len(s.list), s.since, sentKept, at(2))
	}
}

// A message that is published again is sent once, whether the first is sent by then or not; one that failed is tried
// again all the same.
func TestRepeats(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		o := r.copyOf("page0", message.ClassText, "ann")
		r.publish(o)
		r.publish(o) // at once: it would be joined
		r.sleep(10 * time.Second)
		r.publish(o)
		r.sleep(time.Second)
		failed := r.copyOf("page0", message.ClassText, "bob")
		fails := true
		r.script(func(o message.Outbound, _ int) sender.Result {
			if fails && o.To == "bob" {
				return fail(sender.Transient)
			}
			return sender.Result{}
		})
		r.publish(failed)
		r.sleep(200 * time.Millisecond)
		r.with(func() { fails = false })
		r.sleep(5 * time.Second)
		r.with(func() { fails = true })
		first := r.copyOf("page0", message.ClassText, "bob")
		r.publish(first, like(first, "a"), like(first, "b"), like(first, "b"), like(first, "a")) // waits, and would be joined
		r.with(func() { fails = false })
		r.sleep(5 * time.Second)
		for _, id := range []string{first.ID, first.ID + "a", first.ID + "b"} {
			if r.accepted[id] != 1 {
				t.Errorf("%s was sent %d times, want once", id, r.accepted[id])
			}
		}
		if r.accepted[o.ID] != 1 || r.accepted[failed.ID] != 1 {
			t.Errorf("sent %d times, and after a failure %d times, want once each", r.accepted[o.ID], r.accepted[failed.ID])
		}
		if n := testutil.ToFloat64(r.only().metrics.repeats); n != 4 {
			t.Errorf("%v repeats counted, want 4", n)
		}
	})
}

// An id names one of a person's messages: another person, or page, may have one with the same.
func TestSameIDToOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		o := r.copyOf("page0", message.ClassText, "ann")
		to, page := o, o
		to.To, page.Page = "bob", "page1"
		for range 2 {
			r.publish(o, to, page)
			r.sleep(time.Second)
		}
		if n := r.accepted[o.ID]; n != 3 {
			t.Errorf("%d were sent, want one to each person of each page", n)
		}
	})
}

// like returns a message like another one, whose id has a suffix.
func like(o message.Outbound, suffix string) message.Outbound {
	o.ID += suffix
	return o
}
