package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Len is how long the platform may find s: in UTF-16 units, of which a
// character beyond the basic plane has two. Its documents say "characters"
// without saying of which kind; no reading of it counts more, except bytes.
func Len(s string) int {
	n := 0
	for _, r := range s {
		n += size(r)
	}
	return n
}

func size(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}

// Split cuts s, as Clean gives it, into pieces of at most limit (of Len), which
// joined are s again. It cuts behind white space, or within a word that is
// longer than half a piece, there before a character of its own: never within a
// letter with its marks, an emoji with its modifiers, or a pair of regional
// letters, if these fit into half a piece. No piece is empty, and the empty s has
// none. limit must be at least 2.
func Split(s string, limit int) []string {
	var pieces []string
	for s != "" {
		end := cut(s, limit)
		pieces = append(pieces, s[:end])
		s = s[end:]
	}
	return pieces
}

// cut returns where the first piece of s ends.
func cut(s string, limit int) int {
	if len(s) <= limit { // no character is longer in UTF-16 than in UTF-8
		return len(s)
	}
	word, char := 0, 0 // the last good places to cut, 0 for none
	n, flags := 0, 0
	var before rune
	for i, r := range s {
		if n > limit/2 && i > 0 {
			if unicode.IsSpace(before) && !unicode.IsSpace(r) {
				word = i
			}
			if begins(before, r, flags) {
				char = i
			}
		}
		if n+size(r) > limit {
			return behind(word, char, i)
		}
		flags = run(flags, flag(r))
		n += size(r)
		before = r
	}
	return len(s)
}

func behind(word, char, last int) int {
	switch {
	case word > 0:
		return word
	case char > 0:
		return char
	}
	return last
}

const joiner = '\u200d'

// begins tells whether r, after before, begins a character of its own. flags
// is how many regional letters in a row before is the last of.
func begins(before, r rune, flags int) bool {
	switch {
	case before == joiner || r == joiner:
		return false
	case unicode.Is(unicode.M, r): // variation selectors, too
		return false
	case r >= 0x1f3fb && r <= 0x1f3ff: // skin tones
		return false
	case r >= 0xe0020 && r <= 0xe007f: // tags behind a black flag
		return false
	case flag(r):
		return flags%2 == 0
	}
	return true
}

func flag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// Shorten is s, or its beginning with an ellipsis, in at most limit runes,
// which must be at least 1.
func Shorten(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	runes := []rune(s)[:limit-1]
	return strings.TrimRightFunc(string(runes), unicode.IsSpace) + "…"
}
