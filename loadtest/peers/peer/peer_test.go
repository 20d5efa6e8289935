package peer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// environment is a right one, with some of it replaced.
func environment(t *testing.T, replace map[string]string) func(string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pages")
	if err := os.WriteFile(file, []byte("1\n1001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"GRAPH_URL": "http://127.0.0.1:1/v23.0", "LIMIT": "300", "REPLICAS": "4", "REPLICA": "1", "PAGES_FILE": file, "NAMESPACE": "n",
	}
	maps.Copy(all, replace)
	return func(name string) string { return all[name] }
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s, err := Load(environment(t, nil))
	if err != nil || s.Limit != 300 || s.Replicas != 4 || s.Replica != 1 || !slices.Equal(s.Pages, []string{"1", "1001"}) {
		t.Errorf("Load() = %+v, %v, want what was set", s, err)
	}
	// Two seconds of the limit, in four parts; two pages from one pool.
	if s.Calls() != 150 || s.AllCalls() != 300 || s.Share() != 75 {
		t.Errorf("Calls %d, AllCalls %d, Share %g, want 150, 300, 75", s.Calls(), s.AllCalls(), s.Share())
	}
	for _, name := range []string{"GRAPH_URL", "LIMIT", "REPLICAS", "REPLICA", "PAGES_FILE", "NAMESPACE"} {
		if _, err := Load(environment(t, map[string]string{name: ""})); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Load() without %s = %v, want an error that names it", name, err)
		}
	}
	for _, limit := range []string{"0", "-1", "NaN", "Inf"} {
		if _, err := Load(environment(t, map[string]string{"LIMIT": limit})); err == nil {
			t.Errorf("Load() with LIMIT %s = nil error, want one", limit)
		}
	}
}

// memory is a queue that sends nothing.
type memory struct {
	list    []Message
	removed bool
}

func (m *memory) Put(_ context.Context, list []Message) error {
	if list[0].Page == "sick" {
		return errors.New("no room")
	}
	m.list = append(m.list, list...)
	return nil
}

func (m *memory) Left(context.Context) (left Left, err error) {
	for _, x := range m.list {
		left.Waiting = append(left.Waiting, x.ID)
	}
	return left, nil
}

func (m *memory) Remove(context.Context) error { m.removed = true; return nil }

// A feeder answers every command with a line, and cleans up in the end.
func TestFeeder(t *testing.T) {
	t.Parallel()
	var q memory
	p := Peer{Feed: func(context.Context, Settings) (Queue, error) { return &q, nil }}
	in, say := io.Pipe()
	hear, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- p.run(t.Context(), []string{"feed"}, environment(t, nil), in, out) }()
	answers := bufio.NewReader(hear)
	for _, talk := range []struct{ command, want string }{
		{"", "ready"},
		{`{"n":1,"put":[{"id":"1/m/2","page":"1","body":"{}"},{"id":"1/m/3","page":"1","body":"{}"}]}`, `{"n":1,"put":2}`},
		{`{"n":2,"put":[{"id":"x","page":"sick","body":"{}"}]}`, `{"n":2,"error":"no room"}`},
		{`{"n":3}`, `{"n":3,"error":"neither put nor left is in the command"}`},
		{`{"n":4,"left":true}`, `{"n":4,"left":{"waiting":["1/m/2","1/m/3"],"dead":null}}`},
	} {
		if talk.command != "" {
			if _, err := io.WriteString(say, talk.command+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := answers.ReadString('\n'); err != nil || got != talk.want+"\n" {
			t.Errorf("answer to %s = %q, %v, want %s", talk.command, got, err, talk.want)
		}
	}
	if err := say.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || !q.removed {
		t.Errorf("run(feed) = %v, removed %t, want nil and true", err, q.removed)
	}
}

// A worker ends when whoever started it has ended.
func TestWorkerEndsWithItsParent(t *testing.T) {
	t.Parallel()
	p := Peer{Work: func(ctx context.Context, _ Settings, _ *Graph, ready func()) error {
		ready()
		<-ctx.Done()
		return nil
	}}
	in, parent := io.Pipe()
	var out strings.Builder
	done := make(chan error)
	go func() { done <- p.run(t.Context(), []string{"work"}, environment(t, nil), in, &out) }()
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || out.String() != "ready\n" {
		t.Errorf("run(work) = %v and said %q, want nil and ready", err, out.String())
	}
}

// Answers are told apart by their code.
func TestSend(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer token-7" || r.URL.Path != "/v23.0/7/messages" {
			t.Errorf("call of %s with %s, want page 7 and its token", r.URL.Path, r.Header.Get("Authorization"))
		}
		if code := string(body); code != "{}" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":`+code+`}}`)
		}
	}))
	t.Cleanup(api.Close)
	g := NewGraph(api.URL + "/v23.0")
	for body, want := range map[string]string{"{}": "", "613": ErrThrottled.Error(), "551": "send: answer 400, code 551", "x": "send: answer 400, code 0"} {
		got := ""
		if err := g.Send(t.Context(), Message{Page: "7", Body: body}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Send() answered with %s = %q, want %q", body, got, want)
		}
	}
}
