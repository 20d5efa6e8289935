package term

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// screen returns the rows that a terminal shows after s, without those that were erased.
func screen(s string) string {
	s = strings.NewReplacer(wrapOff, "", wrapOn, "").Replace(s)
	rows := strings.Split(s, "\n")
	for i, row := range rows {
		rows[i] = row[strings.LastIndex(row, erase)+1:]
		rows[i] = strings.TrimPrefix(rows[i], erase[1:])
	}
	return strings.Join(rows, "\n")
}

func TestLineIsBelowWhatIsPrinted(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := &Line{w: &b}
	out := l.Above(&b)
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { fmt.Fprintln(out, "first") }, "first\n"},
		{func() { l.Set("one of three") }, "first\none of three"},
		{func() { l.Set("two\n") }, "first\ntwo"},
		{func() { fmt.Fprintln(out, "second") }, "first\nsecond\ntwo"},
		{func() { l.Set("") }, "first\nsecond\n"},
		{func() { fmt.Fprintln(out, "third") }, "first\nsecond\nthird\n"},
	} {
		step.do()
		if got := screen(b.String()); got != step.want {
			t.Fatalf("screen = %q, want %q; written was %q", got, step.want, b.String())
		}
	}
}

func TestNoLineWithoutATerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, l := range []*Line{NewLine(&b), NewLine(file), {}} {
		l.Set("progress")
		fmt.Fprintln(l.Above(&b), "a row")
		l.Set("")
		if l.IsShown() {
			t.Error("IsShown() = true, want false")
		}
	}
	if got, want := b.String(), strings.Repeat("a row\n", 3); got != want {
		t.Errorf("written = %q, want %q", got, want)
	}
	if info, err := file.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("the file has %d bytes, %v, want none", info.Size(), err)
	}
}
