package plaintext

import (
	"cmp"
	"strings"
	"unicode"
)

// Len returns the length of s in UTF-16 units, of which a character beyond the
// basic plane has two. The platform's documents count "characters" and do not
// define them. No reading of that counts more, except bytes.
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

// Split cuts s, which Clean has returned, into pieces of at most limit as Len
// counts. The pieces joined are s. No piece is empty, and the empty s has none.
// limit must be at least 2.
//
// It cuts behind white space. Only a word longer than half a piece is cut
// within, before a character of its own. A letter with its marks, an emoji with
// its modifiers and a pair of regional letters stay whole if they fit into half
// a piece.
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
	word, char := 0, 0 // the last position behind white space, and before a character; 0: none
	n, flags := 0, 0
	var before rune
	for i, r := range s {
		if n > limit/2 && i > 0 {
			if unicode.IsSpace(before) && !unicode.IsSpace(r) {
				word = i
			}
			if startsCharacter(before, r, flags) {
				char = i
			}
		}
		if n+size(r) > limit {
			return cmp.Or(word, char, i)
		}
		flags = streak(flags, isRegional(r))
		n += size(r)
		before = r
	}
	return len(s)
}

const joiner = '\u200d'

// startsCharacter reports whether r, which follows before, starts a character of
// its own. flags is how many regional letters in a row end with before.
func startsCharacter(before, r rune, flags int) bool {
	switch {
	case before == joiner || r == joiner:
		return false
	case unicode.Is(unicode.M, r): // also variation selectors
		return false
	case r >= 0x1f3fb && r <= 0x1f3ff: // skin tones
		return false
	case r >= 0xe0020 && r <= 0xe007f: // tags, which follow a black flag
		return false
	case isRegional(r): // two of them are one flag
		return flags%2 == 0
	}
	return true
}

// isRegional reports whether r is a regional letter.
func isRegional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// Shorten returns s, or its beginning and an ellipsis, of at most limit as Len
// counts. limit must be at least 1.
func Shorten(s string, limit int) string {
	if Len(s) <= limit {
		return s
	}
	n := 1 // the ellipsis
	for i, r := range s {
		if n += size(r); n > limit {
			s = s[:i]
			break
		}
	}
	return strings.TrimRightFunc(s, unicode.IsSpace) + "…"
}
