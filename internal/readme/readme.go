// Package readme keeps the tables in README.md equal to the code: each stands
// between `<!-- begin NAME -->` and `<!-- end NAME -->`, and a test compares it
// with what the code says. `UPDATE_README=1 go test ./internal/readme ./cmd/...`
// writes the tables anew.
package readme

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// writing makes updates by tests of one process go one after another.
var writing sync.Mutex

// Check fails t unless the section name of the file is text; with
// UPDATE_README set it writes the section instead.
func Check(t *testing.T, file, name, text string) {
	t.Helper()
	writing.Lock()
	defer writing.Unlock()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, got, after, err := cut(string(raw), name)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	want := "\n" + strings.TrimSpace(text) + "\n"
	if got == want {
		return
	}
	if os.Getenv("UPDATE_README") == "" {
		t.Errorf("%s: section %q is not what the code says; UPDATE_README=1 go test writes it.\ngot:\n%s\nwant:\n%s", file, name, got, want)
		return
	}
	if err := os.WriteFile(file, []byte(before+want+after), 0o644); err != nil { //nolint:gosec // a document that anybody may read
		t.Fatal(err)
	}
}

func cut(text, name string) (before, section, after string, err error) {
	begin, end := "<!-- begin "+name+" -->", "<!-- end "+name+" -->"
	i := strings.Index(text, begin)
	j := strings.Index(text, end)
	if i < 0 || j < i {
		return "", "", "", fmt.Errorf("no section %s … %s", begin, end)
	}
	i += len(begin)
	return text[:i], text[i:j], text[j:], nil
}
