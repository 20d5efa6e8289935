package plaintext

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	family := "👩‍👩‍👧" // 8 units
	for _, tt := range []struct {
		name, text string
		limit      int
		want       []string
	}{
		{"nothing", "", 10, nil},
		{"fits exactly", "0123456789", 10, []string{"0123456789"}},
		{"one word", "0123456789x", 10, []string{"0123456789", "x"}},
		{"behind white space", "one two three", 10, []string{"one two ", "three"}},
		{"white space fits just", "123456789 x", 10, []string{"123456789 ", "x"}},
		{"a line is white space", "one two\nthree", 10, []string{"one two\n", "three"}},
		{"an early space is not taken", "a 0123456789", 10, []string{"a 01234567", "89"}},
		{"characters, not bytes", "äöüäöüäöüäö", 10, []string{"äöüäöüäöüä", "ö"}},
		{"beyond the basic plane two units each", "😀😀😀😀😀😀", 10, []string{"😀😀😀😀😀", "😀"}},
		{"an odd limit", "😀😀😀", 5, []string{"😀😀", "😀"}},
		{"a letter keeps its mark", "0123456789\u0301x", 10, []string{"012345678", "9\u0301x"}},
		{"a family stays together", "abcdefg" + family, 12, []string{"abcdefg", family}},
		{"a skin tone stays", "abcdefgh👍🏽", 10, []string{"abcdefgh", "👍🏽"}},
		{"a flag stays whole", "abcde🇩🇪🇫🇷", 11, []string{"abcde🇩🇪", "🇫🇷"}},
		{"nothing to keep whole", strings.Repeat("\u0301", 11), 10, []string{strings.Repeat("\u0301", 10), "\u0301"}},
	} {
		if diff := cmp.Diff(tt.want, Split(tt.text, tt.limit)); diff != "" {
			t.Errorf("Split(%s): -want +got\n%s", tt.name, diff)
		}
	}
}

// checkSplit checks what holds for every text and limit. It counts with
// unicode/utf16, not with Len.
func checkSplit(t interface{ Errorf(string, ...any) }, s string, limit int) {
	pieces := Split(s, limit)
	if joined := strings.Join(pieces, ""); joined != s {
		t.Errorf("Split(%q, %d) joined = %q, want the text", s, limit, joined)
	}
	for i, p := range pieces {
		n := len(utf16.Encode([]rune(p)))
		if n == 0 || n > limit || utf8.ValidString(s) && !utf8.ValidString(p) {
			t.Errorf("Split(%q, %d): piece %d is %q with %d units, want 1 to the limit", s, limit, i, p, n)
		}
		if i < len(pieces)-1 && n < limit/2-1 {
			t.Errorf("Split(%q, %d): piece %d is %q, less than half", s, limit, i, p)
		}
	}
}

func TestSplitProperties(t *testing.T) {
	t.Parallel()
	words := rapid.SliceOf(rapid.SampledFrom([]string{"a", "word", " ", "\n", "ö", "😀", "👩‍👩‍👧", "🇩🇪", "e\u0301", "\u0301", "longerword", "日本語"}))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(words.Draw(t, "words"), "")
		checkSplit(t, text, rapid.IntRange(2, 40).Draw(t, "limit"))
	})
}

func FuzzSplit(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, 10)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) { checkSplit(t, s, 2+max(0, limit)%3000) })
}

func TestLen(t *testing.T) {
	t.Parallel()
	for _, s := range append(slices.Clone(seeds), "😀", "日本語", "aä😀") {
		if got, want := Len(s), len(utf16.Encode([]rune(s))); got != want {
			t.Errorf("Len(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"Block Ann", 20, "Block Ann"},
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abcde…"},
		{"abcd fg", 6, "abcd…"},
		{"äöüäöü", 3, "äö…"},
		{"😀😀😀", 6, "😀😀😀"},
		{"😀😀😀", 5, "😀😀…"},
		{"😀😀😀", 4, "😀…"},
		{"ab", 1, "…"},
	} {
		if got := Shorten(tt.in, tt.limit); got != tt.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

func BenchmarkClean(b *testing.B) {
	for _, bb := range []struct{ name, text string }{{"ascii", "Hello everybody, how are you?"}, {"beyond", "Grüße aus Köln 🎉, wie geht's?"}} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				if Clean(bb.text) == "" {
					b.Fatal("Clean left nothing")
				}
			}
		})
	}
}
