package app

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (b *buffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(line)
}

// with returns the parts behind msg= of the lines that have a text.
func (b *buffer) with(text string) (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.out.String()) {
		if _, part, _ := strings.Cut(strings.TrimSpace(line), "msg="); strings.Contains(part, text) {
			lines = append(lines, part)
		}
	}
	return lines
}

// TestAudit: each request of an operator that can change something leaves one line with
// what it was about, whether it succeeds or not; what reads leaves none, and no line has a
// text of a broadcast or a token.
func TestAudit(t *testing.T) {
	t.Parallel()
	const admin, bot = "a-token-of-operators", "a-token-of-a-bot"
	_, opt := given(t)
	log := new(buffer)
	opt.Log = slog.New(slog.NewTextHandler(log, nil))
	c, err := NewCore(t.Context(), CoreConfig{Settings: load[CoreSettings](t,
		"DATABASE_URL", "sqlite:"+t.TempDir()+"/core.db", "ADMIN_TOKEN", admin, "MESSAGES_TOKEN", bot), Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	running := run(t, c)
	ask := func(method, path, body, token string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, running.admin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for _, row := range []struct {
		method, path, body string
		want               string // what the line ends with
	}{
		{"POST", "/pages/1/pause", `{"for":"1h","reason":"a try"}`, `status=204 for=1h0m0s reason="a try" limits="{Text:0 Media:0 Recipient:0}"`},
		{"POST", "/pages/1/pause", `{"for":"soon"}`, `status=400`},
		{"POST", "/pages/1/resume", ``, `status=204 for=0s reason="" limits="{Text:0 Media:0 Recipient:0}"`},
		{"PUT", "/pages/1/limits", `{"text":80}`, `status=204 for=0s reason="" limits="{Text:80 Media:0 Recipient:0}"`},
		{"DELETE", "/pages/1/limits", ``, `status=204 for=0s reason="" limits="{Text:0 Media:0 Recipient:0}"`},
		{"POST", "/pages/1/users/7/ban", `{"forever":true}`, `status=404 until=forever`},
		{"POST", "/pages/1/users/7/ban", `{}`, `status=400`},
		{"DELETE", "/pages/1/users/7", ``, `status=404`},
		{"POST", "/broadcast", `{"page":"1","text":"PRIVATE"}`, `status=404 page=1 room=0`},
		{"DELETE", "/broadcasts/x", ``, `status=404`},
		{"POST", "/nosuch", `{}`, `status=404`},
	} {
		before := len(log.with("operator's request"))
		ask(row.method, row.path, row.body, admin)
		lines := log.with("operator's request")
		begin := `"operator's request" program=core method=` + row.method + " path=" + row.path + " who=ADMIN_TOKEN from=127.0.0.1:"
		if len(lines) != before+1 || !strings.HasPrefix(lines[before], begin) || !strings.HasSuffix(lines[before], " "+row.want) {
			t.Errorf("%s %s = lines %q, want one: %s… %s", row.method, row.path, lines[before:], begin, row.want)
		}
	}
	before := len(log.with("operator's request"))
	for _, path := range []string{"/pages", "/reports?page=1", "/broadcasts", "/messages?mid=x", "/settings"} {
		ask("GET", path, "", admin)
	}
	list := `[{"page":"1","to":"7","text":"PRIVATE"},{"page":"1","to":"8","text":"PRIVATE"}]`
	for range 3 {
		if code := ask("POST", "/messages", list, bot); code != 202 {
			t.Errorf("POST /messages with the bot's token = %d, want 202", code)
		}
	}
	if code := ask("POST", "/pages/1/pause", `{}`, bot); code != 403 {
		t.Errorf("POST /pages/1/pause with the bot's token = %d, want 403", code)
	}
	if lines := log.with("operator's request"); len(lines) != before {
		t.Errorf("requests that read, are refused, or are many = lines %q, want none", lines[before:])
	}
	if err := running.stop(); err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	const want = `"requests of the last minute" program=core path=/messages who=MESSAGES_TOKEN from=127.0.0.1 status=202 requests=3 messages=6`
	if lines := log.with("requests of the last minute"); !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
		t.Errorf("lines of messages = %q, want %s", lines, want)
	}
	if lines := append(log.with("PRIVATE"), log.with("a-token")...); len(lines) > 0 {
		t.Errorf("lines with a text or token: %q", lines)
	}
}
