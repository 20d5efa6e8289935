// Package plaintext makes a user's text safe to show to others. Clean and Name
// return valid UTF-8 without control characters, and without the direction
// controls that make a line read other than it is written. Name also returns
// one line of visible characters that cannot be taken for "Name: text".
// Skeletons says which names look alike. Split cuts a text into pieces that are
// the same text when joined.
//
// Markup, quotes and metacharacters of shells or SQL stay as they are. Text is
// only data in this program and is never executed.
//
// All functions are pure and safe for concurrent use.
package plaintext

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// MaxName is the most characters (runes) of a name: as many as fit on one line
	// above a message on a small phone.
	MaxName = 30
	// maxMarks is the number of combining marks in a row that a text keeps. The writing
	// systems of living languages need three. A stack of dozens paints over the lines
	// around it.
	maxMarks = 4
	// maxNewlines is the number of line feeds that a text keeps in a row: two
	// blank lines.
	maxNewlines = 3
)

// The reasons why a name cannot be used.
var (
	ErrNameInvalid = errors.New("name holds nothing visible, a colon, an arrow, or a slash in front")
	ErrNameLong    = errors.New("name is too long")
)

// Clean returns s without
//
//   - control characters other than line feed and tab,
//   - direction controls that act beyond their own character,
//   - more than maxMarks combining marks or maxNewlines line feeds in a row,
//   - white space around it.
//
// Line ends become line feeds. A byte that is not UTF-8 becomes U+FFFD. The
// result is empty when nothing visible is left. Clean(Clean(s)) is Clean(s).
func Clean(s string) string {
	if isVisibleASCII(s) {
		return strings.TrimSpace(s)
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(s))
	marks, lines := 0, 0
	for _, r := range s { // range decodes a byte that is not UTF-8 as U+FFFD
		switch r {
		case '\r', '\u0085', '\u2028', '\u2029', '\v', '\f':
			r = '\n'
		}
		if banned(r) {
			continue
		}
		marks, lines = streak(marks, unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r)), streak(lines, r == '\n')
		if marks <= maxMarks && lines <= maxNewlines {
			b.WriteRune(r)
		}
	}
	s = strings.TrimSpace(b.String())
	if !strings.ContainsFunc(s, visible) {
		return ""
	}
	return s
}

// isVisibleASCII reports whether s is one line of ASCII with something visible
// in it, which is the usual case.
func isVisibleASCII(s string) bool {
	seen := false
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
		seen = seen || s[i] != ' '
	}
	return seen
}

// streak returns the length of a row of true values that was n long before yes.
func streak(n int, yes bool) int {
	if yes {
		return n + 1
	}
	return 0
}

// banned reports whether no text needs r: controls, private use and
// noncharacters, and the direction controls that also act on the text behind
// them. The direction marks LRM, RLM and ALM act on one position. They are part
// of ordinary Arabic and Hebrew and stay.
func banned(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.IsControl(r), unicode.Is(unicode.Co, r), unicode.Is(unicode.Noncharacter_Code_Point, r):
		return true
	case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r >= '\u206a' && r <= '\u206f':
		return true
	case r == '\ufeff', r >= '\ufff9' && r <= '\ufffb': // byte order mark, interlinear annotation
		return true
	}
	return false
}

// visible reports whether r paints something by itself.
func visible(r rune) bool {
	if r <= unicode.MaxASCII {
		return r > ' ' && r < 0x7f
	}
	return !unicode.IsSpace(r) && !Blank(r) && !unicode.Is(unicode.M, r) && !unicode.IsControl(r)
}

// Blank reports whether r paints nothing although it is no space. That holds for
// characters that Unicode declares default-ignorable, and for the empty Braille
// cell.
func Blank(r rune) bool {
	return r == '\u2800' || unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Name returns s as a name: one line without invisible characters, of at most
// MaxName runes. It is in Unicode's normal form C, so the way in which an accent
// was written does not matter. A name never holds a colon or a character that
// looks like one, because a colon separates name and text. It never holds an arrow,
// because the line of a rename does, and lines that are not the beginning of a text.
// It never begins with a slash, because commands do, nor with a piece of a frame.
// The error is ErrNameInvalid or ErrNameLong.
func Name(s string) (string, error) {
	var b strings.Builder
	before := ' '
	for _, r := range Clean(s) {
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case r == utf8.RuneError, Blank(r):
			continue
		case strings.ContainsRune(colons, r), unicode.Is(arrows, r), strings.ContainsRune(heads, r) && isShaft(before):
			return "", ErrNameInvalid
		}
		b.WriteRune(r)
		before = r
	}
	name := strings.Join(strings.Fields(limitMarks(norm.NFC.String(b.String()))), " ")
	switch {
	case !strings.ContainsFunc(name, nameable), strings.ContainsRune(slashes, first(name)), unicode.In(first(name), unicode.M, frames), endsLikeColon(name):
		return "", ErrNameInvalid
	case utf8.RuneCountInString(name) > MaxName:
		return "", ErrNameLong
	}
	return name, nil
}

// limitMarks returns s without more than maxMarks combining marks in a row.
func limitMarks(s string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if marks = streak(marks, unicode.Is(unicode.M, r)); marks > maxMarks {
			return -1
		}
		return r
	}, s)
}

const (
	// colons holds the characters that look like a colon: whose skeleton of Unicode
	// TR39 or whose form NFKC holds one, and those that Unicode names a colon and
	// draws as one. TestColons derives the first two. U+1361 is Ethiopic's wordspace.
	colons = ":\u02d0\u02f8\u0589\u05c3\u0703\u0704\u1361\u1365\u1366\u16ec\u1803\u1804\u1809\u205a\u205d\u2236\u2237\u2239\u223a\u2254\u2255" +
		"\u2982\u29f4\u2a74\u2af6\ua6f4\ua789\ufe13\ufe30\ufe55\uff1a\U00010781\U00010af5\U00010f88\U00012471\U0001da8a"
	slashes = "/\u2044\u2215\uff0f"
	heads   = ">\u02c3\u203a\u232a\u27e9\u3009\ufe65\uff1e" // of an arrow like ->
)

// isShaft reports whether r and the head behind it make an arrow.
func isShaft(r rune) bool { return unicode.Is(unicode.Pd, r) || strings.ContainsRune("=~\u2212", r) }

// letterColons holds the letters and marks that look like a colon to TR39, with
// their script.
var letterColons = map[rune]*unicode.RangeTable{'\u0903': unicode.Devanagari, '\u0a83': unicode.Gujarati, '\ua4fd': unicode.Lisu}

// endsLikeColon reports whether a word of name, which is not its last one, ends with
// what looks like a colon, or whether that stands behind another script. Within a
// word, and at the end of the name, it is read as the letter or mark that it is.
func endsLikeColon(name string) bool {
	runes := []rune(name)
	for i, r := range runes {
		script := letterColons[r]
		if script != nil && (i == 0 || !unicode.Is(script, runes[i-1]) || i+1 < len(runes) && !unicode.Is(script, runes[i+1])) {
			return true
		}
	}
	return false
}

// frames holds the corners and lines of frames.
var frames = &unicode.RangeTable{R16: []unicode.Range16{{0x2500, 0x257f, 1}}}

// arrows holds the characters that Unicode names arrows, and pictures of them.
var arrows = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x02ff, 0x02ff, 1},
		{0x034d, 0x034e, 1},
		{0x0362, 0x0362, 1},
		{0x20d4, 0x20d7, 1},
		{0x20e1, 0x20e1, 1},
		{0x20ea, 0x20ea, 1},
		{0x20ee, 0x20ef, 1},
		{0x2190, 0x21ff, 1},
		{0x2347, 0x2348, 1},
		{0x2350, 0x2357, 7},
		{0x2794, 0x2794, 1},
		{0x2798, 0x27be, 1},
		{0x27f0, 0x27ff, 1},
		{0x2900, 0x297f, 1},
		{0x2b00, 0x2b11, 1},
		{0x2b30, 0x2b4f, 1},
		{0x2b5a, 0x2bb9, 1},
		{0x2bec, 0x2bef, 1},
		{0xffe8, 0xffec, 1},
	},
	R32: []unicode.Range32{{0x1f500, 0x1f504, 1}, {0x1f519, 0x1f51d, 1}, {0x1f5d8, 0x1f5d8, 1}, {0x1f800, 0x1f8ff, 1}, {0x1fbb4, 0x1fbb8, 1}},
}

// nameable reports whether r alone can be a name: a letter, a digit or a
// picture, but not punctuation.
func nameable(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r)
}

func first(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// Fold returns the form of s by which names and words are compared. Fold(a) ==
// Fold(b) if a and b differ only in upper and lower case, or in whether an
// accent is a character of its own.
func Fold(s string) string {
	// Upper case comes first, because ſ and the Kelvin sign have no lower case
	// of their own. The normal form comes last, because the upper case of one
	// character may be several.
	return norm.NFC.String(strings.ToLower(strings.ToUpper(norm.NFC.String(s))))
}

// RightToLeft reports whether s holds a letter of a script that runs from right
// to left.
func RightToLeft(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return r >= '\u0590' && unicode.In(r, rightToLeft...)
	})
}

var rightToLeft = []*unicode.RangeTable{
	unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko,
	unicode.Samaritan, unicode.Mandaic, unicode.Adlam, unicode.Hanifi_Rohingya, unicode.Mende_Kikakui,
}
