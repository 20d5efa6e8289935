package message

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func line(id, text string) Outbound {
	return Outbound{ID: id, Page: "1", To: "2", Class: ClassText, Text: text, Joins: true}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	long := func(id string, n int) Outbound { return line(id, strings.Repeat("ä", n)) }
	with := func(o Outbound, change func(*Outbound)) Outbound { change(&o); return o }
	for _, tc := range []struct {
		name string
		in   []Outbound
		most int
		n    int
		id   string
	}{
		{"one", []Outbound{line("a", "x")}, 8, 1, "a"},
		{"three", []Outbound{line("a", "x"), line("b", "y"), line("c", "z")}, 8, 3, "a b c"},
		{"no more than most", []Outbound{line("a", "x"), line("b", "y"), line("c", "z")}, 2, 2, "a b"},
		{"2,000 characters, which are more bytes", []Outbound{long("a", 1000), long("b", 999)}, 8, 2, "a b"},
		{"2,001 characters", []Outbound{long("a", 1000), long("b", 1000)}, 8, 1, "a"},
		{"2,000 units of fewer characters", []Outbound{line("a", strings.Repeat("😀", 500)), line("b", "x"+strings.Repeat("😀", 499))}, 8, 2, "a b"},
		{"2,001 units of fewer characters", []Outbound{line("a", strings.Repeat("😀", 500)), line("b", strings.Repeat("😀", 500))}, 8, 1, "a"},
		{"a first one that is longer alone", []Outbound{long("a", 3000), line("b", "y")}, 8, 1, "a"},
		{"999 characters of ids", []Outbound{line(strings.Repeat("a", 500), "x"), line(strings.Repeat("b", 498), "y")}, 8, 2, strings.Repeat("a", 500) + " " + strings.Repeat("b", 498)},
		{"1,000 characters of ids", []Outbound{line(strings.Repeat("a", 500), "x"), line(strings.Repeat("b", 499), "y")}, 8, 1, strings.Repeat("a", 500)},
		{"the first does not join", []Outbound{with(line("a", "x"), func(o *Outbound) { o.Joins = false }), line("b", "y")}, 8, 1, "a"},
		{"the second does not join", []Outbound{line("a", "x"), with(line("b", "y"), func(o *Outbound) { o.Joins = false }), line("c", "z")}, 8, 1, "a"},
		{"buttons", []Outbound{line("a", "x"), with(line("b", "y"), func(o *Outbound) { o.Replies = []QuickReply{{Title: "t", Payload: "p"}} })}, 8, 1, "a"},
		{"buttons of the first", []Outbound{with(line("a", "x"), func(o *Outbound) { o.Replies = []QuickReply{{Title: "t", Payload: "p"}} }), line("b", "y")}, 8, 1, "a"},
		{"an attachment", []Outbound{line("a", "x"), with(line("b", ""), func(o *Outbound) { o.Attachment = &Attachment{Type: "image", URL: "u"} })}, 8, 1, "a"},
		{"a broadcast", []Outbound{line("a", "x"), with(line("b", "y"), func(o *Outbound) { o.Broadcast = "b" })}, 8, 1, "a"},
		{"another class", []Outbound{line("a", "x"), with(line("b", "y"), func(o *Outbound) { o.Class = ClassMedia })}, 8, 1, "a"},
		{"an id with a space", []Outbound{line("a", "x"), line("b c", "y")}, 8, 1, "a"},
		{"a first id with a space", []Outbound{line("a b", "x"), line("c", "y")}, 8, 1, "a b"},
	} {
		got, n := Join(tc.in, tc.most)
		if n != tc.n || got.ID != tc.id {
			t.Errorf("%s: Join() = %d of id %.60q, want %d of %.60q", tc.name, n, got.ID, tc.n, tc.id)
		}
		var texts []string
		for _, o := range tc.in[:n] {
			texts = append(texts, o.Text)
		}
		if want := strings.Join(texts, "\n"); got.Text != want {
			t.Errorf("%s: text %.60q, want %.60q", tc.name, got.Text, want)
		}
		if got.Page != "1" || got.To != "2" || got.Class != tc.in[0].Class {
			t.Errorf("%s: Join() = %+v, want page, recipient and class of the first", tc.name, got)
		}
	}
}

// Whatever is joined, nothing is lost or added, and the bounds hold.
func FuzzJoin(f *testing.F) {
	f.Add("Ann: hi|Bob: hello", "a|b", uint8(3), 8)
	f.Add(strings.Repeat("x|", 10), "i|j|k", uint8(0), 3)
	f.Add(strings.Repeat("é", 1999)+"|\n|", "a b|c", uint8(0), 8)
	f.Fuzz(func(t *testing.T, texts, ids string, plain uint8, most int) {
		id := strings.Split(ids, "|")
		var in []Outbound
		for i, text := range strings.Split(texts, "|") {
			o := line(id[i%len(id)], text)
			o.Joins = i >= 8 || plain&(1<<i) == 0
			in = append(in, o)
		}
		got, n := Join(in, most)
		if n < 1 || n > len(in) || n > max(1, most) {
			t.Fatalf("Join() took %d of %d, at most %d", n, len(in), most)
		}
		if n == 1 {
			if got.ID != in[0].ID || got.Text != in[0].Text {
				t.Fatalf("Join() of one changed it: %+v", got)
			}
			return
		}
		if len(utf16.Encode([]rune(got.Text))) > MaxText || utf8.RuneCountInString(got.ID) > MaxMetadata {
			t.Fatalf("Join() has %d units of text, %d of ids", len(utf16.Encode([]rune(got.Text))), utf8.RuneCountInString(got.ID))
		}
		rest := got.Text
		for i, o := range in[:n] {
			if !o.Joins {
				t.Fatalf("Join() took message %d, which does not join", i)
			}
			if i > 0 {
				rest = strings.TrimPrefix(rest, "\n")
			}
			var ok bool
			if rest, ok = strings.CutPrefix(rest, o.Text); !ok {
				t.Fatalf("Join() = %q, which lacks text %d, %q", got.Text, i, o.Text)
			}
		}
		if parts := strings.Split(got.ID, " "); rest != "" || len(parts) != n {
			t.Fatalf("Join() of %d has %d ids, and %q too much", n, len(parts), rest)
		}
	})
}
