package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/internal/dispatch"
)

// fakeDemo is a demonstration with one phone and one action.
type fakeDemo struct {
	Demo
	did     Target
	ending  string
	changed chan struct{}
}

func (*fakeDemo) Pages() []string           { return []string{"1"} }
func (*fakeDemo) Name(string) string        { return "Jazz" }
func (*fakeDemo) Counts() map[string]Counts { return map[string]Counts{"1": {Limit: 300}} }
func (*fakeDemo) Verdict() Verdict          { return Verdict{Expected: 7} }
func (*fakeDemo) Strategy() string          { return "chatclub" }
func (*fakeDemo) Machine() string           { return "" }
func (d *fakeDemo) Ending() string          { return d.ending }
func (*fakeDemo) Actions() []Action         { return []Action{{Name: "kill", Enabled: true}} }
func (*fakeDemo) Receipts() []Receipt       { return []Receipt{} }
func (*fakeDemo) Markers() []Marker         { return []Marker{} }
func (*fakeDemo) Tour() *Tour               { return nil }
func (d *fakeDemo) Forward(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "forwarded")
}

func (d *fakeDemo) Phones(since uint64) (changes any, now uint64, changed <-chan struct{}) {
	return map[string]uint64{"since": since}, since + 1, d.changed
}

func (d *fakeDemo) Act(_ context.Context, name string, on Target) (int, error) {
	switch name {
	case "kill":
		d.did = on
		return 7, nil
	case "busy":
		return 0, errors.New("it goes on")
	}
	return 0, ErrUnknown
}

// open serves a console that asks one replica.
func open(t *testing.T, token string, demo Demo) (*Console, *httptest.Server) {
	t.Helper()
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
			http.Error(w, "no", http.StatusUnauthorized)
			return
		case r.URL.Path == "/pages/7/resume":
			w.WriteHeader(http.StatusNoContent)
			return
		case r.URL.Path != "/pages":
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(dispatch.Status{Partitions: []int{3}, Pages: []dispatch.PageStatus{{Page: "1", Class: "text", Limit: 300}}})
	}))
	t.Cleanup(replica.Close)
	k, err := New(Config{
		Replicas: func(context.Context) []Replica { return []Replica{{Name: "D1", URL: replica.URL}} },
		Token:    token, Demo: demo, Every: 5 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
	s := httptest.NewServer(k.Handler())
	t.Cleanup(s.Close)
	return k, s
}

// request returns the status, the type and the body of an answer.
func request(t *testing.T, method, url, body string, cookies ...string) (status int, kind, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cookies {
		req.Header.Set("Cookie", c)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), strings.TrimSpace(string(b))
}

// TestStream: a reader gets the state at once and again and again, and every change
// of the phones.
func TestStream(t *testing.T) {
	t.Parallel()
	demo := &fakeDemo{changed: make(chan struct{}), ending: "stopping: 3 copies wait"}
	_, s := open(t, "sesame", demo)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/state", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	states, phones, event := 0, 0, ""
	for lines := bufio.NewScanner(resp.Body); (states < 3 || phones < 3) && lines.Scan(); {
		name, data, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "event":
			event = data
		case name == "data" && event == "state":
			var st State
			if err := json.Unmarshal([]byte(data), &st); err != nil || !st.Demo || st.ReadOnly || st.Verdict == nil || st.Verdict.Expected != 7 || len(st.Pages) != 1 {
				t.Fatalf("state = %s, %v, want one of the demonstration", data, err)
			}
			if want := (Sentence{"stopping: 3 copies wait", Excess}); st.Sentence != want {
				t.Errorf("sentence = %+v, want what the demonstration says of its end", st.Sentence)
			}
			if states++; len(st.Dispatchers) == 1 && st.Dispatchers[0].State != "running" {
				t.Fatalf("dispatchers = %+v, want the replica, which was asked with the token", st.Dispatchers)
			}
		case name == "data" && event == "phones":
			phones++
		}
	}
	if states < 3 || phones < 3 {
		t.Errorf("%d states and %d changes of phones came, want 3 of each", states, phones)
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	demo := &fakeDemo{changed: make(chan struct{})}
	_, s := open(t, "sesame", demo)
	_, alone := open(t, "", nil)
	_, operated := open(t, "sesame", nil)
	session := enter(t, operated.URL, "sesame")
	for _, row := range []struct {
		url, body string
		status    int
		answer    string
	}{
		{s.URL + "/actions/kill", `{"dispatcher":"D2","page":"1"}`, 200, `{"receipt":7}`},
		{s.URL + "/actions/kill", ``, 200, `{"receipt":7}`},
		{s.URL + "/actions/nosuch", `{}`, 404, `{"error":"there is no such action"}`},
		{s.URL + "/actions/busy", `{}`, 409, `{"error":"it goes on"}`},
		{s.URL + "/actions/kill", `{"pages":1}`, 400, `{"error":"the body is not what an action is told: pages is unknown"}`},
		{alone.URL + "/actions/kill", `{}`, 403, `{"error":"this page only shows: set ADMIN_TOKEN, and log in"}`},
		{alone.URL + "/actions/resume", `{"page":"7"}`, 403, `{"error":"this page only shows: set ADMIN_TOKEN, and log in"}`},
		{operated.URL + "/actions/resume", `{"page":"7"}`, 200, `{"receipt":0}`},
		{operated.URL + "/actions/kill", `{}`, 404, `{"error":"there is no such action"}`},
	} {
		var cookies []string
		if strings.HasPrefix(row.url, operated.URL) {
			cookies = append(cookies, session)
		}
		status, kind, answer := request(t, http.MethodPost, row.url, row.body, cookies...)
		if status != row.status || answer != row.answer || kind != "application/json" {
			t.Errorf("POST %s %s = %d %s %s, want %d %s", row.url, row.body, status, kind, answer, row.status, row.answer)
		}
		if row.body == `{"dispatcher":"D2","page":"1"}` && demo.did != (Target{Page: "1", Dispatcher: "D2"}) {
			t.Errorf("the action was done to %+v", demo.did)
		}
	}
}

// TestFiles: the page and its parts are served with their types, and nothing else is.
func TestFiles(t *testing.T) {
	t.Parallel()
	_, s := open(t, "sesame", &fakeDemo{changed: make(chan struct{})})
	_, alone := open(t, "", nil)
	for _, row := range []struct {
		url    string
		status int
		kind   string
	}{
		{s.URL + "/", 200, "text/html; charset=utf-8"},
		{s.URL + "/web/app.js", 200, "text/javascript; charset=utf-8"},
		{s.URL + "/web/style.css", 200, "text/css; charset=utf-8"},
		{s.URL + "/web/icon.svg", 200, "image/svg+xml"},
		{s.URL + "/favicon.ico", 200, "image/svg+xml"},
		{s.URL + "/web/inter.woff2", 200, "font/woff2"},
		{s.URL + "/web/nosuch.js", 404, "text/plain; charset=utf-8"},
		{s.URL + "/web/", 404, "text/plain; charset=utf-8"},
		{s.URL + "/nosuch", 404, "text/plain; charset=utf-8"},
		{s.URL + "/phones/1/start", 200, "text/plain; charset=utf-8"},
		{alone.URL + "/phones", 404, "text/plain; charset=utf-8"},
	} {
		if status, kind, _ := request(t, http.MethodGet, row.url, ""); status != row.status || kind != row.kind {
			t.Errorf("GET %s = %d %s, want %d %s", row.url, status, kind, row.status, row.kind)
		}
	}
}

func TestNewNeedsReplicas(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "Replicas must be set") {
		t.Errorf("New() = %v, want an error that names the field", err)
	}
}

// TestReplicaThatHangs: the others are shown all the same. Its own state says that it does
// not answer.
func TestReplicaThatHangs(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		_ = json.NewEncoder(w).Encode(dispatch.Status{Partitions: []int{}, InFlight: int(n), Limit: 4096})
	}))
	defer well.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	k, err := New(Config{
		Replicas: func(context.Context) []Replica {
			return []Replica{{Name: "a", URL: hangs.URL}, {Name: "b", URL: well.URL}}
		},
		Every:  50 * time.Millisecond,
		Client: &http.Client{}, // without a time-out: it hangs for good
	})
	if err != nil {
		t.Fatal(err)
	}
	for seen := 0; seen < 2; { // a look without a time limit would never end
		s := k.Look(t.Context())
		if d := s.Dispatchers[0]; d.State != "lost" || d.Error == "" {
			t.Fatalf("dispatcher that hangs = %+v, want it lost, with a reason", d)
		}
		if d := s.Dispatchers[1]; d.InFlight > seen && d.State == "running" && d.Limit == 4096 {
			seen = d.InFlight
		}
	}
	k.End()
}
