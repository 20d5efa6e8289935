package core

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// members makes users u001 … of a page.
func (r *rig) members(t testing.TB, page string, n int) {
	t.Helper()
	for i := range n {
		user := fmt.Sprintf("u%03d", i+1)
		r.say(t, message.Event{Kind: message.KindPostback, Page: page, ID: "join" + user, User: user, Time: time.Now().UnixMilli()})
	}
}

// cast makes a broadcast, and goes on only if it is accepted.
func (r *rig) cast(t *testing.T, request string) {
	t.Helper()
	if status, answer := r.ask(t, "POST", "/broadcast", request); status != http.StatusAccepted {
		t.Fatalf("POST /broadcast %s = %d %s, want 202", request, status, answer)
	}
}

// ear takes what comes to the bulk queue at once, and remembers when.
type ear struct {
	begin time.Time

	mu    sync.Mutex
	heard map[string][]time.Duration // by broadcast, since begin
	known map[string]bool            // ids of the messages
	twice map[string]int             // how often more than once they came
}

// listen is for a bubble.
func listen(t testing.TB, b *memory.Broker) *ear {
	t.Helper()
	sub, err := b.Consume(b.Topology().Bulk(), queue.ConsumeOptions{Prefetch: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	e := &ear{begin: time.Now(), heard: map[string][]time.Duration{}, known: map[string]bool{}, twice: map[string]int{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for d := range sub.Deliveries() {
			o, err := message.DecodeOutbound(d.Body)
			if err != nil || d.Ack() != nil {
				t.Errorf("message %s of a broadcast: %v", d.ID, err)
			}
			e.mu.Lock()
			e.heard[o.Broadcast] = append(e.heard[o.Broadcast], time.Since(e.begin))
			if e.known[d.ID] {
				e.twice[d.ID]++
			}
			e.known[d.ID] = true
			e.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = sub.Close()
		<-ended
	})
	return e
}

// of are the times at which messages of a broadcast came.
func (e *ear) of(id string) []time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]time.Duration(nil), e.heard[id]...)
}

// wantOnce checks that so many messages of a broadcast came, and each once.
func (e *ear) wantOnce(t testing.TB, id string, want int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if got := len(e.heard[id]); got != want {
		t.Errorf("messages of broadcast %s = %d, want %d", id, got, want)
	}
	for key, n := range e.twice {
		t.Errorf("message %s came %d times more, want once", key, n)
	}
}

// wantRate checks that in any T seconds at most rate × (T + a second) + least
// messages came.
func (e *ear) wantRate(t testing.TB, id string, rate float64, least int) {
	t.Helper()
	heard := e.of(id)
	for i := range heard {
		for j := i; j < len(heard); j++ {
			if most := rate*((heard[j]-heard[i]).Seconds()+1.2) + float64(least); float64(j-i+1) > most {
				t.Fatalf("messages of %s from %v to %v = %d, want at most %g", id, heard[i], heard[j], j-i+1, most)
			}
		}
	}
}

// TestBroadcast: what is asked for and what is queued.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.say(t, now("1", "a", "hello"), now("2", "b", "hi"), now("3", "c", "/join x"))
		r.handled(t)
		long := strings.Repeat("word ", 500)
		for request, want := range map[string]string{
			`{"page":"p","text":"News!","id":"n1","rate":5}`:                                     `{"id":"n1","recipients":3,"state":"running"}`,
			`{"page":"p","room":2,"text":"News!","id":"n2","deadline":"2000-01-01T02:00:00.5Z"}`: `{"id":"n2","recipients":1,"state":"running"}`,
			`{"page":"p","text":"` + long + `","id":"n3","rate":1}`:                              `{"id":"n3","recipients":3,"state":"running"}`,
		} {
			for range 2 { // the second time it is there
				r.wantAnswer(t, "POST", "/broadcast", request, 202, want)
			}
		}
		for field, request := range map[string]string{
			"page":     `{"page":"q","text":"News!","id":"n1","rate":5}`,
			"room":     `{"page":"p","room":1,"text":"News!","id":"n1","rate":5}`,
			"text":     `{"page":"p","text":"News","id":"n1","rate":5}`,
			"rate":     `{"page":"p","text":"News!","id":"n1"}`,
			"deadline": `{"page":"p","text":"News!","id":"n1","rate":5,"deadline":"2000-01-01T00:59:59Z"}`,
		} {
			if status, answer := r.ask(t, "POST", "/broadcast", request); status != 409 || !strings.Contains(answer, `"field":"id"`) {
				t.Errorf("POST /broadcast of another %s = %d %s, want 409 that names the id", field, status, answer)
			}
		}
		stop := r.start(t)
		time.Sleep(10 * time.Second)
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		var got []message.Outbound
		for _, m := range take(t, r.broker, "test.outbound.bulk") {
			o, err := message.DecodeOutbound(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			if m.ID != o.ID || o.Time < at.UnixMilli() || o.Time > time.Now().UnixMilli() {
				t.Errorf("message %q of %d, want its copy's id %q and the time when it was queued", m.ID, o.Time, o.ID)
			}
			if o.Time = 0; len(o.Text) > 100 {
				o.Text = "long"
			}
			got = append(got, o)
		}
		slices.SortFunc(got, func(a, b message.Outbound) int { return strings.Compare(a.ID, b.ID) })
		news := func(id, to, text string, deadline time.Duration) message.Outbound {
			return message.Outbound{
				ID: "p/broadcast-" + id, Page: "p", To: to, Class: message.ClassText, Text: text,
				Broadcast: id[:2], Deadline: at.Add(deadline).UnixMilli(),
			}
		}
		want := []message.Outbound{
			news("n1/1", "1", "News!", time.Hour), news("n1/2", "2", "News!", time.Hour), news("n1/3", "3", "News!", time.Hour),
			news("n2/3", "3", "News!", 2*time.Hour+500*time.Millisecond),
			news("n3/1", "1", "long", time.Hour), news("n3/1/1", "1", "long", time.Hour),
			news("n3/2", "2", "long", time.Hour), news("n3/2/1", "2", "long", time.Hour),
			news("n3/3", "3", "long", time.Hour), news("n3/3/1", "3", "long", time.Hour),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("broadcasts: -want +got\n%s", diff)
		}
		r.wantAnswer(t, "POST", "/broadcast", `{"page":"p","text":"News!","id":"n1","rate":5}`, 202, `{"id":"n1","recipients":3,"state":"done"}`)
		r.wantAnswer(t, "GET", "/broadcasts/n2", "", 200, `{"id":"n2","page":"p","room":2,"text":"News!","rate":30,`+
			`"deadline":"2000-01-01T02:00:00.5Z","created":"2000-01-01T00:00:00Z","recipients":1,"queued":1,"state":"done"}`)
		r.wantAnswer(t, "GET", "/broadcasts?page=q", "", 200, `{"broadcasts":[]}`)
		if _, answer := r.ask(t, "GET", "/broadcasts?page=p&limit=2", ""); strings.Count(answer, `"recipients"`) != 2 || strings.Contains(answer, "text") {
			t.Errorf("GET /broadcasts with a limit = %s, want 2 without texts", answer)
		}
		r.wantMetrics(t, `
			# HELP chatclub_core_broadcast_messages_total Messages of broadcasts confirmed on the bulk queue.
			# TYPE chatclub_core_broadcast_messages_total counter
			chatclub_core_broadcast_messages_total 10
			# HELP chatclub_core_broadcasts_held Broadcasts that this core works on.
			# TYPE chatclub_core_broadcasts_held gauge
			chatclub_core_broadcasts_held 0
			# HELP chatclub_core_broadcasts_total Broadcasts that ended, by how: all of it queued, stopped by an operator, or past its deadline.
			# TYPE chatclub_core_broadcasts_total counter
			chatclub_core_broadcasts_total{state="done"} 3
			chatclub_core_broadcasts_total{state="expired"} 0
			chatclub_core_broadcasts_total{state="stopped"} 0
		`, "chatclub_core_broadcast_messages_total", "chatclub_core_broadcasts_held", "chatclub_core_broadcasts_total")
		// They count for their rooms, as one event each.
		if _, answer := r.ask(t, "GET", "/pages", ""); !strings.Contains(answer, `"messages_per_hour":5,"copies_per_hour":`) {
			t.Errorf("GET /pages = %s, want three events of members and three of operators", answer)
		}
	})
}
