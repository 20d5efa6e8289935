package fakeapi_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
)

// TestReadmeExamples: every send in the README gets the answer written beside
// it, and every control example is accepted.
func TestReadmeExamples(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	a := fakeapitest.New(t, fakeapi.Config{})
	rows := regexp.MustCompile("(?m)^\\|[^|]+\\| `send '([^']+)'` \\| ([0-9/]+)").FindAllStringSubmatch(string(b), -1)
	if len(rows) != 11 {
		t.Errorf("examples of classes = %d, want 11", len(rows))
	}
	for _, row := range rows {
		e := a.Post(row[1]).Error(t)
		got := strconv.Itoa(e.Code)
		if e.Subcode != 0 {
			got += fmt.Sprintf("/%d", e.Subcode)
		}
		if got != row[2] {
			t.Errorf("send %s = code %s, want %s", row[1], got, row[2])
		}
	}
	controls := regexp.MustCompile(`(?m)^control '([^']+)'`).FindAllStringSubmatch(string(b), -1)
	if len(controls) != 5 {
		t.Errorf("examples of control = %d, want 5", len(controls))
	}
	for _, row := range controls {
		if err := a.Patch([]byte(row[1])); err != nil {
			t.Errorf("control %s = %v, want nil", row[1], err)
		}
	}
}

// TestReadmeByCurl runs the README's shell functions and examples as they are
// written, by curl on a socket.
func TestReadmeByCurl(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: TestReadmeExamples has the same requests without it", program)
		}
	}
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	base, _ := fakeapitest.New(t, fakeapi.Config{}).Listen()
	script := "set -eu\nF=" + base + "\n"
	for _, function := range regexp.MustCompile(`(?m)^(?:send|control)\(\) \{.*\}$`).FindAllString(string(b), -1) {
		script += function + "\n"
	}
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\|[^|]+\\| `(send '[^']+')` \\| ([0-9]+)").FindAllStringSubmatch(string(b), -1) {
		script += row[1] + "\n"
		want = append(want, `"code":`+row[2])
	}
	first := regexp.MustCompile(`(?m)^send '.*'$`).FindString(string(b))
	script += first + "\n"
	want = append(want, `{"recipient_id":"42","message_id":"m_`)
	for _, example := range regexp.MustCompile(`(?m)^control '.*'`).FindAllString(string(b), -1) {
		script += example + "\n"
	}
	script += `curl -sS "$F/control"` + "\n"
	want = append(want, `"code":"613/1996"`)
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != len(want) {
		t.Fatalf("the examples = %v, %d answers, want %d:\n%s", err, len(lines), len(want), out)
	}
	for i, part := range want {
		if !strings.Contains(lines[i], part) {
			t.Errorf("answer %d = %s, want it to hold %s", i+1, lines[i], part)
		}
	}
}
