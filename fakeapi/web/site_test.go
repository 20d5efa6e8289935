package web_test

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/web"
)

// site is a platform with its page, behind a socket.
func site(t *testing.T) (p *fakeapitest.Platform, get func(path string) *http.Response) {
	t.Helper()
	p = fakeapitest.New(t, fakeapi.Config{})
	if _, err := web.New(web.Config{API: p.API}); err != nil {
		t.Fatal(err)
	}
	base, client := p.Listen()
	return p, func(path string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
}

// TestPage: everything that the page names is served, and nothing comes from
// elsewhere.
func TestPage(t *testing.T) {
	t.Parallel()
	_, get := site(t)
	links := regexp.MustCompile(`(?:src|href)="([^"]+)"|from "\./([^"]+)"`)
	seen := map[string]bool{}
	for todo := []string{"/", "/favicon.ico"}; len(todo) > 0; todo = todo[1:] {
		if seen[todo[0]] {
			continue
		}
		seen[todo[0]] = true
		resp := get(todo[0])
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		policy := resp.Header.Get("Content-Security-Policy")
		if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(policy, "default-src 'none'; ") || todo[0] == "/" && strings.Contains(policy, "unsafe") {
			t.Errorf("GET %s = %d %v with the policy %q, want 200 and a strict one", todo[0], resp.StatusCode, err, policy)
		}
		if s := strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", ""); strings.Contains(s, "://") {
			t.Errorf("%s names another host", todo[0])
		}
		for _, m := range links.FindAllStringSubmatch(string(b), -1) {
			if m[1] != "" {
				todo = append(todo, "/"+m[1])
			} else {
				todo = append(todo, "/web/"+m[2])
			}
		}
	}
	if len(seen) < 8 {
		t.Errorf("files of the page = %d, want at least 8", len(seen))
	}
	for _, path := range []string{"/web/", "/web/nothing.js", "/web/../assets.go", "/pictures/../../assets.go", "/pictures/unknown.svg"} {
		resp := get(path)
		resp.Body.Close()
		if resp.StatusCode == 200 {
			t.Errorf("GET %s = 200, want an error", path)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	p, get := site(t)
	p.Ledger().Page("1").Record(time.Now(), ledger.Send{Recipient: "42", ID: "x"})
	events := get("/events?page=1")
	defer events.Body.Close()
	lines := bufio.NewScanner(events.Body)
	next := func() string {
		var event []string
		for lines.Scan() && lines.Text() != "" {
			event = append(event, lines.Text())
		}
		return strings.Join(event, "\n")
	}
	for _, want := range [][2]string{
		{"event: settings\ndata: {", `"algorithm":"fixed-window"`},
		{"event: phones\ndata: {", `"max":0`},
		{"event: numbers\ndata: {\"started\":\"2", `"accepted":1`},
		{"event: numbers\ndata: {", `"page":"1","accepted_total":1`},
	} {
		if got := next(); !strings.HasPrefix(got, want[0]) || !strings.Contains(got, want[1]) {
			t.Errorf("event = %q, want %s with %s", got, want[0], want[1])
		}
	}
	if err := p.Patch([]byte(`{"text":{"per_second":7}}`)); err != nil {
		t.Fatal(err)
	}
	for {
		got := next()
		if strings.HasPrefix(got, "event: settings\n") {
			if !strings.Contains(got, `"per_second":7`) {
				t.Errorf("event = %q, want the changed limit", got)
			}
			return
		}
		if !strings.HasPrefix(got, "event: numbers\n") {
			t.Fatalf("event after a change of the settings = %q, want settings", got)
		}
	}
}
