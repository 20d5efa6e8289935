package clienttest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/users"
	"chatclub/fakeapi/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job is the work of client.mjs with the library, and results are the library's
// answers.
type job struct {
	Base     string   `json:"base"`
	Secret   string   `json:"secret"`
	Sends    []send   `json:"sends"`
	Webhooks []posted `json:"webhooks"`
}

type send struct {
	Token  string `json:"token"`
	To     string `json:"to"`
	Text   string `json:"text,omitempty"`
	Image  string `json:"image,omitempty"`
	Action string `json:"action,omitempty"`
	ID     string `json:"id,omitempty"`
}

type posted struct {
	Body      []byte `json:"body"`
	Signature string `json:"signature"`
}

type results struct {
	Sends []struct {
		Recipient, MID        string
		Code, Subcode, Status int
		Type, Trace           string
	}
	Webhooks []taken
}

type taken struct {
	Valid  bool
	Events []event
}

type event struct {
	Type, Sender, Text string
	Pictures           []string
}

// library does the job in a Node.js process with the library installed.
func library(t *testing.T, j job) results {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed: the client library runs on Node.js", program)
		}
		t.Skipf("%s is not installed: the client library runs on Node.js", program)
	}
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "client.mjs"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	in := func(stdin io.Reader, name string, args ...string) []byte {
		t.Helper()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, stdin, &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s %s = %v\n%s", name, strings.Join(args, " "), err, &stderr)
		}
		return stdout.Bytes()
	}
	in(nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(in(bytes.NewReader(b), "node", "client.mjs"), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSends makes the sends of the README's examples through the library.
func TestSends(t *testing.T) {
	t.Parallel()
	s := fakeapitest.Settings(func(s *fakeapi.Settings) {
		// The library makes a 5xx three times more, with pauses of seconds.
		s.Status = map[fakeapi.Code]int{"2": 400, "1/1357046": 400}
	})
	a := fakeapitest.New(t, fakeapi.Config{Settings: s})
	base, _ := a.Listen()
	var mu sync.Mutex
	var accepted []fakeapi.Acceptance
	a.Observe(func(x fakeapi.Acceptance) {
		mu.Lock()
		defer mu.Unlock()
		accepted = append(accepted, x)
	})
	type want struct{ code, subcode, status int }
	tests := []struct {
		send send
		want want
	}{
		{send{To: "42", Text: "Grüße / 100 % 🎉", ID: "1/m_1/42"}, want{}},
		{send{To: "42", Image: "https://pictures.example/a.png?b=%2F", ID: "1/m_1/42/1"}, want{}},
		{send{To: "42", Action: "typing_on"}, want{}},
		{send{To: "error-613", Text: "x"}, want{613, 0, 400}},
		{send{To: "error-4", Text: "x"}, want{4, 0, 403}},
		{send{To: "error-613-2018338", Text: "x"}, want{613, 2018338, 400}},
		{send{To: "error-2", Text: "x"}, want{2, 0, 400}},
		{send{To: "error-1-1357046", Text: "x"}, want{1, 1357046, 400}},
		{send{To: "error-551", Text: "x"}, want{551, 0, 400}},
		{send{To: "error-10-2018278", Text: "x"}, want{10, 2018278, 403}},
		{send{To: "error-2018300", Text: "x"}, want{2018300, 0, 400}},
		{send{To: "42", Text: ""}, want{100, 2018034, 400}},
		{send{To: "error-190", Text: "x"}, want{190, 0, 400}},
		{send{Token: "stolen", To: "42", Text: "x"}, want{190, 0, 400}},
		{send{To: "error-368", Text: "x"}, want{368, 0, 400}},
	}
	j := job{Base: base}
	for _, tc := range tests {
		if tc.send.Token == "" {
			tc.send.Token = "token-1"
		}
		j.Sends = append(j.Sends, tc.send)
	}
	got := library(t, j).Sends
	if len(got) != len(tests) {
		t.Fatalf("answers = %d, want %d", len(got), len(tests))
	}
	for i, tc := range tests {
		g := got[i]
		if (want{g.Code, g.Subcode, g.Status}) != tc.want {
			t.Errorf("send to %s = code %d/%d with status %d, want %+v", tc.send.To, g.Code, g.Subcode, g.Status, tc.want)
		}
		switch {
		case g.Code != 0 && (g.Type != "OAuthException" || len(g.Trace) != 11):
			t.Errorf("send to %s = type %q, trace %q, want OAuthException and 11 characters", tc.send.To, g.Type, g.Trace)
		case g.Code == 0 && (g.Recipient != "42" || strings.HasPrefix(g.MID, "m_") == (tc.send.Action != "")):
			t.Errorf("send to %s = recipient %q, id %q, want 42 and an id m_… unless it is an action", tc.send.To, g.Recipient, g.MID)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	wantAccepted := []fakeapi.Acceptance{
		{Page: "1", Recipient: "42", ID: "1/m_1/42", Text: "Grüße / 100 % 🎉"},
		{Page: "1", Recipient: "42", ID: "1/m_1/42/1", Type: "image", URL: "https://pictures.example/a.png?b=%2F"},
		{Page: "1", Recipient: "42", Action: "typing_on"},
		{Page: "1", Recipient: "error-1-1357046", Text: "x"}, // accepted, and answered with an error
	}
	if diff := cmp.Diff(wantAccepted, accepted, cmpopts.IgnoreFields(fakeapi.Acceptance{}, "MID", "At")); diff != "" {
		t.Errorf("accepted: -want +got\n%s", diff)
	}
}

const secret = "client-test-secret"

// hook answers 200 to every webhook, keeps it and sends the welcomes, without
// a socket.
type hook struct {
	api http.RoundTripper
	mu  sync.Mutex
	all []posted
}

func (h *hook) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.all = append(h.all, posted{body, r.Header.Get("X-Hub-Signature-256")})
	h.mu.Unlock()
	var event struct {
		Entry []struct {
			ID        string
			Messaging []struct {
				Sender   struct{ ID string }
				Postback struct{ MID string }
			}
		}
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return nil, err
	}
	page, first := event.Entry[0].ID, event.Entry[0].Messaging[0]
	if first.Postback.MID != "" {
		user := first.Sender.ID
		welcome := `{"recipient":{"id":"` + user + `"},"message":{"text":"welcome","metadata":"` + page + "/" + first.Postback.MID + "/" + user + `"}}`
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://graph.test/me/messages", strings.NewReader(welcome))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer token-"+page)
		resp, err := h.api.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close() // it is in memory
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// TestWebhooks has the library verify and read the simulated users' webhooks.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	h := &hook{}
	var c fakeapi.UserCounts
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{})
		h.api = a.Transport()
		people, err := users.New(users.Config{
			API: a.API, Webhook: webhook.Config{URL: "http://hook.test/", Secret: secret, Transport: h},
			Users: 3, EventsPerSecond: 40, Pictures: .5, Batches: .3, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := people.Run(t.Context(), 2*time.Second); err != nil {
			t.Fatal(err)
		}
		c = people.Counts()
	})
	forged := h.all[0]
	forged.Body = bytes.Replace(forged.Body, []byte("GET_STARTED"), []byte("GET_STOPPED"), 1)
	got := library(t, job{Secret: secret, Webhooks: append(h.all, forged)}).Webhooks
	if got[len(got)-1].Valid {
		t.Error("a forged webhook was verified, want it refused")
	}
	counts, pictures, umlauts := make(map[string]int64), 0, 0
	for i, w := range got[:len(got)-1] {
		if !w.Valid {
			t.Errorf("webhook %d was refused: its signature, want it verified", i)
		}
		for _, e := range w.Events {
			counts[e.Type]++
			pictures += len(e.Pictures)
			if e.Text == "Grüße aus Köln, wie geht's?" {
				umlauts++
			}
			for _, p := range e.Pictures {
				if !strings.HasPrefix(p, "https://pictures.example/p/") || !strings.HasSuffix(p, ".png?size=1080&oh=a%2Fb") {
					t.Errorf("picture = %q, want its address unescaped", p)
				}
			}
		}
	}
	if diff := cmp.Diff(map[string]int64{"postback": 3, "message": c.Events - 3}, counts); diff != "" {
		t.Errorf("events by type: -want +got\n%s", diff)
	}
	if pictures < int(c.Pictures) || c.Pictures < 20 || umlauts == 0 {
		t.Errorf("pictures = %d in %d messages, texts with umlauts = %d, want at least one for each of 20, and some", pictures, c.Pictures, umlauts)
	}
}
