package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/deadletter"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
)

// grave is a console with a dead-letter queue in memory.
type grave struct {
	*testing.T
	broker *memory.Broker
	page   *Console
	cookie string
}

func withGrave(t *testing.T, token string, do func(g *grave)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		broker := memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 4})
		defer broker.Close()
		k, err := New(Config{
			Replicas: func(context.Context) []Replica { return nil }, Token: token,
			Dead: &deadletter.Queue{Broker: broker, Now: time.Now},
		})
		if err != nil {
			t.Fatal(err)
		}
		g := &grave{T: t, broker: broker, page: k}
		if token != "" {
			w := visit(t, k.Handler(), "POST", "/login", `{"password":"`+token+`"}`)
			g.cookie, _, _ = strings.Cut(w.Header().Get("Set-Cookie"), ";")
		}
		do(g)
	})
}

func (g *grave) kill(page string, n int, reason message.Reason, why string) string {
	g.Helper()
	o := message.Outbound{ID: fmt.Sprintf("%s/m%d/7", page, n), Page: page, To: "7", Class: message.ClassText, Text: "hello", Time: time.Now().UnixMilli()}
	body, err := o.Encode()
	if err != nil {
		g.Fatal(err)
	}
	death := message.Death{Reason: reason, Page: page, Recipient: "7", LastCode: "100", Error: why, Time: time.Now(), Queue: "test.outbound.00"}
	if err := g.broker.Publish(g.Context(), queue.Message{Queue: g.broker.Topology().Dead(), ID: o.ID, Body: body, Headers: death.Headers()}); err != nil {
		g.Fatal(err)
	}
	return o.ID
}

// ask returns the status and the JSON of an answer.
func (g *grave) ask(method, path, body string) (status int, answer map[string]any) {
	g.Helper()
	w := visit(g.T, g.page.Handler(), method, path, body, "Cookie", g.cookie)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		g.Fatalf("%s %s = %d %s, want JSON", method, path, w.Code, w.Body)
	}
	return w.Code, answer
}

// ids are those of the letters in an answer.
func ids(answer map[string]any) (list []string) {
	letters, _ := answer["letters"].([]any)
	for _, l := range letters {
		list = append(list, l.(map[string]any)["id"].(string))
	}
	return list
}

// TestDeadLetters: they are listed with their errors, their payload is shown when it
// is asked for, and those that are meant, and no others, are replayed and purged.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	withGrave(t, "sesame", func(g *grave) {
		const why = "(#100) Length of param message[text] must be less than 2000"
		bad := g.kill("1", 1, message.ReasonBadMessage, why)
		gone := g.kill("1", 2, message.ReasonGone, "")
		other := g.kill("2", 3, message.ReasonGone, "")
		_, answer := g.ask("GET", "/dead", "")
		first, _ := answer["letters"].([]any)[0].(map[string]any)
		if got := ids(answer); !slices.Equal(got, []string{bad, gone, other}) || first["error"] != why || answer["total"] != 3.0 {
			g.Errorf("GET /dead = %v, want three letters, the first with its error", answer)
		}
		if strings.Contains(fmt.Sprint(answer), "hello") {
			g.Errorf("GET /dead = %v, want no text of a user in it", answer)
		}
		for query, want := range map[string][]string{"?page=1": {bad, gone}, "?reason=gone": {gone, other}, "?page=2&reason=gone": {other}, "?page=3": nil} {
			if _, answer := g.ask("GET", "/dead"+query, ""); !slices.Equal(ids(answer), want) {
				g.Errorf("GET /dead%s = %v, want %v", query, ids(answer), want)
			}
		}
		if _, answer := g.ask("GET", "/dead/payload?id="+bad, ""); !strings.Contains(fmt.Sprint(answer), `"text":"hello"`) {
			g.Errorf("payload = %v, want the message", answer)
		}
		if _, answer := g.ask("POST", "/dead/replay", `{"ids":["`+bad+`"],"renew":true}`); fmt.Sprint(answer) != "map[kept:map[] replayed:map[bad_message:1]]" {
			g.Errorf("replay = %v, want one", answer)
		}
		if back := memorytest.Drain(g.T, g.broker, g.broker.Topology().OutboundOf("1")); len(back) != 1 || back[0].ID != bad {
			g.Errorf("on the queue of page 1 = %v, want the letter that was replayed", back)
		}
		time.Sleep(time.Millisecond)
		_, answer = g.ask("GET", "/dead?page=1", "")
		later := g.kill("1", 4, message.ReasonGone, "") // nobody has seen it
		meant := fmt.Sprintf(`{"page":"1","before":%q}`, answer["before"])
		if _, answer := g.ask("POST", "/dead/purge", meant); fmt.Sprint(answer) != "map[purged:map[gone:1]]" {
			g.Errorf("purge = %v, want the other one of page 1", answer)
		}
		if _, answer := g.ask("GET", "/dead", ""); !slices.Equal(ids(answer), []string{other, later}) {
			g.Errorf("left = %v, want %s and %s", ids(answer), other, later)
		}
		if _, answer := g.ask("POST", "/dead/replay", meant); fmt.Sprint(answer) != "map[kept:map[] replayed:map[]]" {
			g.Errorf("replay = %v, want none", answer)
		}
	})
}

// TestDeadRefusals: a wrong request says what is wrong, and changes nothing.
func TestDeadRefusals(t *testing.T) {
	t.Parallel()
	withGrave(t, "sesame", func(g *grave) {
		g.kill("1", 1, message.ReasonGone, "")
		for _, row := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"GET", "/dead?reason=sad", "", 400, `reason: "sad" is none of [`},
			{"GET", "/dead/payload", "", 400, "id: must be given"},
			{"GET", "/dead/payload?id=x", "", 404, "no dead letter has this id any more"},
			{"POST", "/dead/purge", `{}`, 400, "ids: either they or before must be given"},
			{"POST", "/dead/purge", `{"ids":["x"],"before":"2026-01-01T00:00:00Z"}`, 400, "ids: either they or before must be given"},
			{"POST", "/dead/replay", `{"before":"2026-01-01T00:00:00Z","reason":"sad"}`, 400, "reason: "},
			{"POST", "/dead/replay", `{"id":"x"}`, 400, `id is unknown`},
		} {
			status, answer := g.ask(row.method, row.path, row.body)
			if got, _ := answer["error"].(string); status != row.status || !strings.Contains(got, row.want) {
				g.Errorf("%s %s %s = %d %q, want %d %q", row.method, row.path, row.body, status, got, row.status, row.want)
			}
		}
		sub, err := g.broker.Consume(g.broker.Topology().Dead(), queue.ConsumeOptions{Prefetch: 1})
		if err != nil {
			g.Fatal(err)
		}
		if status, answer := g.ask("GET", "/dead", ""); status != 409 || !strings.Contains(fmt.Sprint(answer), "somebody else is at the dead-letter queue") {
			g.Errorf("GET /dead while somebody looks = %d %v, want 409", status, answer)
		}
		if err := sub.Close(); err != nil {
			g.Fatal(err)
		}
		if _, answer := g.ask("GET", "/dead", ""); answer["total"] != 1.0 {
			g.Errorf("GET /dead = %v, want one letter", answer)
		}
	})
}

// TestDeadReadOnly: without a password the letters are seen, but not the users' texts,
// and nothing is changed.
func TestDeadReadOnly(t *testing.T) {
	t.Parallel()
	withGrave(t, "", func(g *grave) {
		id := g.kill("1", 1, message.ReasonGone, "")
		for path, method := range map[string]string{"/dead/payload?id=" + id: "GET", "/dead/replay": "POST", "/dead/purge": "POST"} {
			if status, answer := g.ask(method, path, `{"before":"2026-01-01T00:00:00Z"}`); status != 403 {
				g.Errorf("%s %s = %d %v, want 403", method, path, status, answer)
			}
		}
		if _, answer := g.ask("GET", "/dead", ""); answer["total"] != 1.0 {
			g.Errorf("GET /dead = %v, want one letter", answer)
		}
	})
}

// TestDeadCount: the state says how many letters there are, also while nobody looks.
func TestDeadCount(t *testing.T) {
	t.Parallel()
	withGrave(t, "", func(g *grave) {
		if d := g.page.Look(g.Context()).Dead; d == nil || d.Count != -1 {
			g.Errorf("dead letters before they were counted = %+v, want -1", d)
		}
		ctx, stop := context.WithCancel(g.Context())
		ended := make(chan struct{})
		go func() {
			g.page.dead.watch(ctx)
			close(ended)
		}()
		g.kill("1", 1, message.ReasonGone, "")
		time.Sleep(countEvery + time.Second)
		if d := g.page.Look(ctx).Dead; d.Count != 1 {
			g.Errorf("dead letters = %+v, want 1", d)
		}
		sub, err := g.broker.Consume(g.broker.Topology().Dead(), queue.ConsumeOptions{Prefetch: 1})
		if err != nil {
			g.Fatal(err)
		}
		time.Sleep(countEvery)
		if d := g.page.Look(ctx).Dead; d.Count != 1 {
			g.Errorf("dead letters while somebody holds them = %+v, want still 1", d)
		}
		if err := sub.Close(); err != nil {
			g.Fatal(err)
		}
		stop()
		<-ended
		g.page.End()
	})
}

// TestPause: a page is paused and resumed by an order, which core takes, and shown as
// paused while dispatchers say so.
func TestPause(t *testing.T) {
	t.Parallel()
	paused := []dispatch.PausedPage{}
	dispatcher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(dispatch.Status{Pages: []dispatch.PageStatus{{Page: "1", Class: "text", Limit: 300}}, Paused: paused})
	}))
	defer dispatcher.Close()
	core := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		until := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
		switch r.Method + " " + r.URL.Path {
		case "POST /pages/1/pause":
			paused = []dispatch.PausedPage{{Page: "1", Reason: "on the page", Until: &until}}
			w.WriteHeader(http.StatusNoContent)
		case "POST /pages/1/resume":
			paused = nil
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"page: unknown"}`))
		}
	}))
	defer core.Close()
	one := func(name, url string) func(context.Context) []Replica {
		return func(context.Context) []Replica { return []Replica{{Name: name, URL: url}} }
	}
	k, err := New(Config{Replicas: one("D1", dispatcher.URL), Core: one("core", core.URL), Token: "sesame"})
	if err != nil {
		t.Fatal(err)
	}
	defer k.End()
	w := visit(t, k.Handler(), "POST", "/login", `{"password":"sesame"}`)
	cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	do := func(action, body string) string {
		return strings.TrimSpace(visit(t, k.Handler(), "POST", "/actions/"+action, body, "Cookie", cookie).Body.String())
	}
	state := func() string {
		s := k.Look(t.Context())
		if len(s.Pages) != 1 {
			return "none"
		}
		return s.Pages[0].State + ": " + s.Pages[0].Why
	}
	if got := do("pause", `{"page":"1"}`); got != `{"receipt":0}` || state() != "paused: on the page, until 2026-11-26 08:00:00 UTC" {
		t.Errorf("pause = %s, then the page is %s; want it paused", got, state())
	}
	if got := do("resume", `{"page":"1"}`); got != `{"receipt":0}` || state() != "free: " {
		t.Errorf("resume = %s, then the page is %s; want it free", got, state())
	}
	for body, want := range map[string]string{`{}`: "page: must be given", `{"page":"2"}`: "page: unknown"} {
		if got := do("pause", body); !strings.Contains(got, want) {
			t.Errorf("pause %s = %s, want %q", body, got, want)
		}
	}
}
