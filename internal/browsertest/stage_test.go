package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"chatclub/internal/console"
)

// stage serves chatclub's page, with the states that a test makes up.
type stage struct {
	t *testing.T
	*httptest.Server
	events chan string // to the page, in the form of the stream; an empty one ends the stream
	acts   chan string // the page's requests
}

func newStage(t *testing.T) *stage {
	t.Helper()
	page, err := console.New(console.Config{Replicas: func(context.Context) []console.Replica { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, events: make(chan string, 16), acts: make(chan string, 16)}
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler())
	mux.HandleFunc("GET /state", s.stream)
	mux.HandleFunc("POST /actions/{name}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the page is gone
		}
		s.acts <- r.PathValue("name") + " " + string(body)
		fmt.Fprint(w, `{"receipt":1}`)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *stage) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		select {
		case e := <-s.events:
			if e == "" {
				return
			}
			if _, err := io.WriteString(w, e); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// send sends something to the page.
func (s *stage) send(kind string, v any) {
	s.t.Helper()
	s.put(s.event(kind, v))
}

func (s *stage) event(kind string, v any) string {
	s.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return "event: " + kind + "\ndata: " + string(b) + "\n\n"
}

// repeat sends a state four times a second, as the system does, until the function that it
// returns is called. With one state alone the page is live for three seconds, in which a
// busy machine may not look at it.
func (s *stage) repeat(x console.State) (stop func()) {
	s.t.Helper()
	event, quit, ended := s.event("state", x), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s.events <- event:
			case <-quit:
				return
			}
			select {
			case <-time.After(250 * time.Millisecond):
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

func (s *stage) put(event string) {
	s.t.Helper()
	select {
	case s.events <- event:
	case <-time.After(patience):
		s.t.Fatal("the page takes no more events")
	}
}

// shows sends a state, and waits until the page shows it.
func (s *stage) shows(b *tab, x console.State) {
	s.t.Helper()
	s.send("state", x)
	b.until("the state is shown", fmt.Sprintf(`document.querySelector("#sentence").textContent === %q`, x.Sentence.Text))
}

// twoPhones are phones as the platform tells of them.
func twoPhones(x console.State) any {
	talk := []map[string]any{
		{"n": 1, "text": "Get Started", "tap": true, "state": "sent"},
		{"n": 2, "text": "Guest 77: Who was there yesterday?"},
		{"n": 3, "text": "a-word-that-is-longer-than-any-phone-is-wide-and-has-no-space", "state": "sent"},
	}
	phone := func(id, state string) map[string]any {
		return map[string]any{"id": id, "page": x.Pages[0].ID, "user": "200" + id, "state": state, "first": 1, "messages": talk}
	}
	var pages []string
	for _, p := range x.Pages {
		pages = append(pages, p.ID)
	}
	return map[string]any{"rev": 1, "full": true, "waiting": false, "pages": pages, "max": 8, "phones": []any{phone("1", "joined"), phone("2", "new")}}
}

const statesPerSecond = 4

// begun is the time at which the made-up system was started.
var begun = time.Date(2026, 5, 1, 20, 0, 0, 0, time.UTC)

// scene is the made-up system as its nth state tells it, with so many pages and
// dispatchers. The first page is in excess and changes its owner every ten seconds,
// when a dispatcher is killed and another one comes.
func scene(n, pages, dispatchers int) console.State {
	second := n / statesPerSecond
	now := begun.Add(time.Duration(n) * time.Second / statesPerSecond)
	round := second / 10
	x := console.State{
		Now: now, Started: begun, Demo: true, Strategy: "chatclub", AllPages: pages,
		Sentence: console.Sentence{Text: fmt.Sprintf("Jazz asks for 900/s and may have 300. This is state %d.", n), Level: console.Excess},
		Verdict:  &console.Verdict{Expected: int64(600 * n), Accepted: int64(600*n - 1204), Waiting: 1204},
		Receipts: []console.Receipt{}, Markers: []console.Marker{},
	}
	name := func(i int) string { return fmt.Sprintf("D%d", round+1+i) }
	for i := range dispatchers {
		x.Dispatchers = append(x.Dispatchers, console.Dispatcher{
			Name: name(i), State: "running", Since: begun, Calls: 100 + n%50, InFlight: n % 12, Partitions: []int{i}, Pages: []string{}, Excess: []console.InExcess{},
		})
	}
	if round > 0 {
		x.Dispatchers = append(x.Dispatchers, console.Dispatcher{Name: fmt.Sprintf("D%d", round), State: "killed", Since: begun.Add(time.Duration(10*round) * time.Second)})
	}
	names := []string{"Jazz", "Gardens and greenhouses of the north", "Food", "Football", "Films"}
	for i := range pages {
		p := console.Page{
			ID: fmt.Sprintf("1000%d", i), Name: names[i%len(names)], Color: i % 8, State: "free",
			Limit: 300, Asked: 80, Sent: 80, Delay: 0.02, Owner: name((i + round) % dispatchers),
			History: history(second, i == 0),
		}
		if i == 0 {
			p.State, p.Asked, p.Sent, p.Waiting, p.Wait, p.Pace, p.InFlight = "excess", 900, 300, 1204, 4, 294, 12
			d := &x.Dispatchers[(i+round)%dispatchers]
			d.Excess = append(d.Excess, console.InExcess{Page: p.ID, Class: "text", Pace: p.Pace, Waiting: p.Waiting})
		}
		x.Pages = append(x.Pages, p)
	}
	for _, a := range []string{"flood", "kill", "hang", "add", "remove", "halve", "outage", "fail-recipient", "article", "tour"} {
		x.Actions = append(x.Actions, console.Action{Name: a, Enabled: true})
	}
	x.Actions = append(x.Actions, console.Action{Name: "restore", Why: "the limit is as it was"})
	for i := max(1, round-10); i <= round; i++ {
		at := begun.Add(time.Duration(10*i) * time.Second)
		x.Receipts = append([]console.Receipt{{
			N: i, At: at, Done: true, Level: console.Calm,
			Text: fmt.Sprintf("D%d killed with 37 calls in flight, Jazz taken over by D%d after 0.9 s: 0 lost, 2 doubled.", i, i+1),
		}}, x.Receipts...)
		x.Markers = append(x.Markers, console.Marker{At: at, Text: fmt.Sprintf("D%d killed", i), Page: x.Pages[0].ID})
	}
	return x
}

// history returns a page's made-up history, up to a second.
func history(second int, excess bool) console.History {
	h := console.History{
		End: begun.Unix() + int64(second), Sent: []int{}, Refused: []int{}, Asked: []int{}, Limit: []int{}, Waiting: []int{}, Delay: []int{},
	}
	for i := max(0, second-console.HistorySeconds); i < second; i++ {
		sent, asked, waiting, delay := 60+i%40, 60+i%40, 0, 15+i%20
		if excess {
			sent, asked, waiting, delay = 294, 900-i%300, 1000+i%400, 4000
		}
		h.Sent, h.Asked, h.Waiting, h.Delay = append(h.Sent, sent), append(h.Asked, asked), append(h.Waiting, waiting), append(h.Delay, delay)
		h.Refused, h.Limit = append(h.Refused, i%3), append(h.Limit, 300)
	}
	return h
}
