package fanout

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// unprintable are the control characters that no text needs.
func unprintable(r rune) bool { return unicode.IsControl(r) }

// cleanText is s without control characters other than line feed and tab, and
// without white space around it. Invalid UTF-8 becomes U+FFFD.
func cleanText(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unprintable(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r // a faulty byte arrives here as U+FFFD
	}, s))
}

// cleanName is s on one line, without control characters, at most maxName
// characters; never empty.
func cleanName(s string) string {
	s = strings.Join(strings.Fields(cleanText(s)), " ")
	if runes := []rune(s); len(runes) > maxName {
		s = strings.TrimSpace(string(runes[:maxName]))
	}
	if s == "" {
		return "Guest"
	}
	return s
}

// split cuts text into pieces of at most MaxText characters with prefix before
// each, since the messages of others may come between them. It cuts at the
// last white space of a piece, or within a word that is longer than half a
// piece. What is left after maxTexts pieces is cut off, shown by an ellipsis.
func split(prefix, text string) []string {
	const ellipsis = "…"
	size := MaxText - utf8.RuneCountInString(prefix)
	var pieces []string
	for text != "" {
		piece, rest := cut(text, size)
		if len(pieces) == maxTexts-1 && rest != "" {
			piece, _ = cut(text, size-1)
			piece, rest = piece+ellipsis, ""
		}
		pieces = append(pieces, prefix+piece)
		text = rest
	}
	return pieces
}

// cut returns the first at most size characters of text, which begins with no
// white space, and what follows, without the white space between them.
func cut(text string, size int) (piece, rest string) {
	end, middle, n := len(text), 0, 0
	for i := range text {
		if n == size/2 {
			middle = i
		}
		if n == size {
			end = i
			break
		}
		n++
	}
	if end == len(text) {
		return text, ""
	}
	// A piece may end right before white space, so look one character on.
	_, next := utf8.DecodeRuneInString(text[end:])
	if i := strings.LastIndexFunc(text[:end+next], unicode.IsSpace); i > middle {
		end = i
	}
	return strings.TrimRightFunc(text[:end], unicode.IsSpace), strings.TrimLeftFunc(text[end:], unicode.IsSpace)
}
