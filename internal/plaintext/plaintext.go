// Package plaintext makes what a user wrote harmless to show to others. Clean
// and Name guarantee valid UTF-8 without control characters and without the
// controls that make a line read other than it is written; Name moreover gives
// one line of visible characters that cannot be taken for "Name: text". Markup,
// quotes and metacharacters of shells or SQL stay as they are: text is data
// everywhere here, and nobody runs it. Split cuts a text into pieces that give
// it back when joined.
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
	// MaxName is the most characters (runes) of a name: what fits on one line
	// above a message on a small phone.
	MaxName = 30
	// maxMarks are the combining marks kept behind one another in a text. The
	// writing systems of living languages need three; a stack of dozens paints
	// over the lines around it.
	maxMarks = 4
	// maxNewlines keeps two blank lines of any number of them.
	maxNewlines = 3
)

// Why a name cannot be used.
var (
	ErrNameInvalid = errors.New("name holds nothing visible, a colon or a slash in front")
	ErrNameLong    = errors.New("name is too long")
)

// Clean is s without control characters other than line feed and tab, without
// direction controls that reach beyond their own character, without more than
// maxMarks combining marks in a row or maxNewlines line feeds, and without
// white space around it. Line ends become line feeds. A byte that is not UTF-8
// becomes U+FFFD. It is empty when nothing visible is left. Clean(Clean(s)) is
// Clean(s).
func Clean(s string) string {
	if plain(s) {
		return strings.TrimSpace(s)
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(s))
	marks, lines := 0, 0
	for _, r := range s { // a faulty byte arrives as U+FFFD
		switch r {
		case '\r', '\u0085', '\u2028', '\u2029', '\v', '\f':
			r = '\n'
		}
		if banned(r) {
			continue
		}
		marks, lines = run(marks, unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r)), run(lines, r == '\n')
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

// plain tells whether s is the usual case: visible ASCII on one line.
func plain(s string) bool {
	seen := false
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
		seen = seen || s[i] != ' '
	}
	return seen
}

// run counts how often in a row yes was true.
func run(n int, yes bool) int {
	if yes {
		return n + 1
	}
	return 0
}

// banned are the characters that no text needs: controls, private use and
// noncharacters, and the direction controls that stay in force for what
// follows. The marks of direction (LRM, RLM, ALM), which act on one place, are
// part of ordinary Arabic and Hebrew.
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

// visible tells whether r paints something by itself.
func visible(r rune) bool {
	if r <= unicode.MaxASCII {
		return r > ' ' && r < 0x7f
	}
	return !unicode.IsSpace(r) && !Blank(r) && !unicode.Is(unicode.M, r) && !unicode.IsControl(r)
}

// Blank tells whether r paints nothing though it is no space: Unicode wants it to
// be ignored where it is not known, or it is the empty Braille cell.
func Blank(r rune) bool {
	return r == '\u2800' || unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Name is s as a name: on one line, without invisible characters, at most
// MaxName runes, in Unicode's normal form C, in which it is no matter how an
// accent was written. The error is ErrNameInvalid or ErrNameLong. A name never holds a colon or what looks like one, which
// stands between name and text, and never begins with a slash, as commands do.
func Name(s string) (string, error) {
	var b strings.Builder
	for _, r := range Clean(s) {
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case r == utf8.RuneError, Blank(r):
			continue
		case strings.ContainsRune(colons, r):
			return "", ErrNameInvalid
		}
		b.WriteRune(r)
	}
	name := strings.Join(strings.Fields(fewMarks(norm.NFC.String(b.String()))), " ")
	switch {
	case !strings.ContainsFunc(name, pronounced), strings.ContainsRune(slashes, first(name)), unicode.Is(unicode.M, first(name)):
		return "", ErrNameInvalid
	case utf8.RuneCountInString(name) > MaxName:
		return "", ErrNameLong
	}
	return name, nil
}

// fewMarks is s without more than maxMarks combining marks in a row.
func fewMarks(s string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if marks = run(marks, unicode.Is(unicode.M, r)); marks > maxMarks {
			return -1
		}
		return r
	}, s)
}

const (
	colons  = ":\u02d0\u02f8\u0589\u05c3\u2236\ua789\ufe13\ufe30\ufe55\uff1a"
	slashes = "/\u2044\u2215\uff0f"
)

// pronounced tells whether a name may consist of r: a letter, a digit or a
// picture, but not of punctuation alone.
func pronounced(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r)
}

func first(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// Fold is the form in which two names or words are the same to a reader who
// does not mind upper and lower case, nor whether an accent is a character of
// its own: Fold(a) == Fold(b).
func Fold(s string) string {
	// Upper first: ſ and the Kelvin sign have no lower case of their own. The
	// form last: a letter may have no upper case in one character.
	return norm.NFC.String(strings.ToLower(strings.ToUpper(norm.NFC.String(s))))
}

// RightToLeft tells whether s holds a letter of a script that runs from right
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
