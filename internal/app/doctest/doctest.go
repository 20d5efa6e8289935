// Package doctest keeps the tables in documents equal to the code. A table
// stands between `<!-- begin NAME -->` and `<!-- end NAME -->`, and a test
// compares it with what the code says. With UPDATE_DOCS set in its environment
// the test writes the table instead; `make docs` writes all of them.
package doctest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"chatclub/internal/service"
)

// Settings fails t unless the section of a program in a file has its settings, as
// Section does.
func Settings(t *testing.T, file, program string, settings []service.Setting) {
	t.Helper()
	Section(t, file, program, table(settings))
}

// table returns the rows `| name | default | meaning |` of settings, with their head.
// The meaning of a setting that has few forms ends with them.
func table(settings []service.Setting) string {
	var b strings.Builder
	b.WriteString("| name | default | meaning |\n| --- | --- | --- |\n")
	for _, s := range settings {
		def := "–"
		switch {
		case s.Required:
			def = "required"
		case s.Default != "":
			def = "`" + s.Default + "`"
		}
		if s.Forms != "" {
			s.Meaning = strings.TrimSuffix(s.Meaning, ".") + ": " + s.Forms + "."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, def, strings.ReplaceAll(s.Meaning, "|", `\|`))
	}
	return b.String()
}

// Section fails t unless the section of a file is text. With UPDATE_DOCS set it
// writes the section.
func Section(t *testing.T, file, name, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Tests of several packages, each in a process of its own, write one file.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
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
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Errorf("%s: section %q is not what the code says; make docs writes it.\ngot:\n%s\nwant:\n%s", file, name, got, want)
		return
	}
	_, err = f.WriteAt([]byte(before+want+after), 0)
	if err = errors.Join(err, f.Truncate(int64(len(before+want+after)))); err != nil {
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
