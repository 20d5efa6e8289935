package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/inquiry"
	"chatclub/internal/operator"
)

// port is an admin port that answers GET /pages, and notes other requests.
type port struct {
	*httptest.Server
	pages any
	knows string // the page that can be paused and resumed

	mu    sync.Mutex
	asked []string
}

func newPort(t *testing.T, knows string, pages any) *port {
	t.Helper()
	p := &port{pages: pages, knows: knows}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Authorization") != "Bearer a-word-of-operators":
		http.Error(w, "a token is needed", http.StatusUnauthorized)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(p.pages)
	default:
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.asked = append(p.asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
		p.mu.Unlock()
		if !strings.HasPrefix(r.URL.Path, "/pages/"+p.knows+"/") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"page: unknown"}`)
		}
	}
}

// name returns the port's address, by which the tool calls it.
func (p *port) name() string { return strings.TrimPrefix(p.URL, "http://") }

func at(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }

// fleetOfThree is two dispatchers and a core, of which page 2 is in excess on the
// first, where page 1 waits as the platform asked, page 3 suspended on the second, page 4
// paused, and calls for page 5 fail.
func fleetOfThree(t *testing.T) (a, b, core *port, environ map[string]string) {
	t.Helper()
	since, until := at(10), at(12)
	a = newPort(t, "3", dispatch.Status{InFlight: 7, Limit: 4096, Partitions: []int{1, 2}, Pages: []dispatch.PageStatus{
		{Page: "2", Class: "text", Since: &since, Limit: 300, Pace: 294.5, Waiting: 512, Oldest: 1.25, Reason: dispatch.WaitsForLimit, Until: until},
		{Page: "2", Class: "media", Limit: 10, Pace: 10, Waiting: 2, Reason: dispatch.WaitsForPerson, Until: until},
		{Page: "1", Class: "text", Limit: 300, Pace: 300, HintUntil: &until},
		{Page: "5", Class: "text", Sick: true, Limit: 300, Pace: 300, Waiting: 3, Reason: dispatch.WaitsForPage},
	}})
	b = newPort(t, "3", dispatch.Status{Limit: 4096, APIDown: true, Suspended: []dispatch.SuspendedPage{{Page: "3", Code: "190/463", ProbeAt: at(11)}, {Page: "33"}}})
	core = newPort(t, "3", map[string]any{"pages": []operator.Page{
		{Page: "1", Members: 7},
		{Page: "2", Members: 200},
		{Page: "3"},
		{Page: "4", Members: 3, Paused: true, PausedUntil: &until, PauseReason: "operator: a \x1btry"},
	}})
	return a, b, core, map[string]string{"ADMIN_TOKEN": "a-word-of-operators", "DISPATCHERS": a.URL + "," + b.URL, "CORE": core.URL}
}

func TestPagesList(t *testing.T) {
	t.Parallel()
	a, b, _, environ := fleetOfThree(t)
	out, err := call(t, environ, "pages", "list")
	if err != nil {
		t.Fatal(err)
	}
	got := fields(out)
	want := []string{
		"PAGE MEMBERS OWNER CLASS EXCESS SINCE PACE LIMIT WAITING OLDEST STATE",
		"3 0 - - - - - - - suspended on " + b.name() + " (code 190/463), probed at 2026-01-02T11:00:00Z",
		"33 - - - - - - - - suspended on " + b.name() + " (no token)",
		"4 3 - - - - - - - paused until 2026-01-02T12:00:00Z (operator: a �try)",
		"5 - " + a.name() + " text - 300 300 3 0s calls for it fail on " + a.name() + ", and it is probed",
		"2 200 " + a.name() + " text 2026-01-02T10:00:00Z 294.5 300 512 1.25s waits for the page's limit (300/s)",
		"2 200 " + a.name() + " media - 10 10 2 0s waits for the next try to the person, or the person's own limit (until 2026-01-02T12:00:00Z)",
		"1 7 " + a.name() + " text - 300 300 0 0s text waits on " + a.name() + " until 2026-01-02T12:00:00Z, as the platform asked",
		"",
		"DISPATCHER API IN FLIGHT LIMIT PARTITIONS",
		a.name() + " up 7 4096 2",
		b.name() + " down 0 4096 0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("pages list prints\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	out, err = call(t, environ, "pages", "list", "-json")
	var list struct{ Pages []inquiry.Page }
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list.Pages) != 6 || list.Pages[4].Dispatchers[0].Dispatcher != a.name() {
		t.Errorf("pages list -json prints %s, %v, want the six pages", out, err)
	}
}

// A replica that does not answer is named, and the others are shown.
func TestPagesListWithoutOne(t *testing.T) {
	t.Parallel()
	a, b, _, environ := fleetOfThree(t)
	b.Close()
	out, err := call(t, environ, "pages", "list")
	if err == nil || !strings.Contains(err.Error(), b.name()) || !strings.Contains(out, a.name()) || strings.Contains(out, b.name()) {
		t.Errorf("pages list prints %q, %v, want the pages of %s alone and an error that names %s", out, err, a.name(), b.name())
	}
}

// An order goes to core, or where there is none to the first dispatcher that answers.
func TestPagesOrders(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ args, asked, prints string }{
		{"pause 3 -for 90m -reason sale", `POST /pages/3/pause {"for":"1h30m0s","reason":"sale"}`, "paused for 1h30m0s\n"},
		{"pause 3", `POST /pages/3/pause {"reason":""}`, "paused until it is resumed\n"},
		{"resume 3", "POST /pages/3/resume", "resumed\n"},
		{"limit 3 -text 80 -media 5", `PUT /pages/3/limits {"text":80,"media":5}`, "the page has the limits\n"},
		{"limit 3", "DELETE /pages/3/limits", "the page has the limits of the pages file or the settings\n"},
	} {
		for _, alone := range []bool{false, true} {
			a, b, core, environ := fleetOfThree(t)
			asked, others := core, []*port{a, b}
			if alone {
				delete(environ, "CORE")
				a.Close()
				asked, others = b, []*port{a, core}
			}
			out, err := call(t, environ, append([]string{"pages"}, strings.Fields(row.args)...)...)
			if err != nil || out != row.prints {
				t.Errorf("pages %s prints %q, %v, want %q", row.args, out, err, row.prints)
			}
			if got := strings.Join(asked.asked, "\n"); got != row.asked {
				t.Errorf("pages %s asks %q, want %q", row.args, got, row.asked)
			}
			if n := len(others[0].asked) + len(others[1].asked); n != 0 {
				t.Errorf("pages %s asks %d more", row.args, n)
			}
		}
	}
	_, _, _, environ := fleetOfThree(t)
	others := newPort(t, "99", dispatch.Status{Paused: []dispatch.PausedPage{{Page: "99"}}})
	out, err := call(t, map[string]string{"ADMIN_TOKEN": "a-word-of-operators", "DISPATCHERS": others.URL}, "pages", "pause", "99", "-for", "1h")
	if want := "paused for 1h0m0s\nno program has seen page 99 yet: is it the page that you mean?\n"; err != nil || out != want {
		t.Errorf("the pause of a page that nobody has seen prints %q, %v, want %q", out, err, want)
	}
	if out, err := call(t, environ, "pages", "pause", "9"); err == nil || !strings.Contains(err.Error(), "unknown") || out != "" {
		t.Errorf("an order that is refused prints %q, %v, want the error", out, err)
	}
}
