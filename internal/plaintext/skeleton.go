package plaintext

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"
)

// MaxSkeletons is the most skeletons that a name has.
const MaxSkeletons = 3

// Skeletons returns the forms by which it is seen whether two names look alike.
// They are those of Unicode TR39, of the name as it is written, in lower case and
// in upper case: В looks like B, and в does not look like b. Characters of
// compatibility are their originals (NFKC), small capitals and letters on a badge or
// of a flag are letters, and white space, punctuation and what paints nothing do not
// count. A name has at least one, and at most MaxSkeletons. They are for comparing,
// not for showing.
//
// TR39 lists single characters that look alike in common fonts. It does not list
// what merely resembles, such as á and a, vv and w, or 5 and S.
func Skeletons(name string) []string {
	name = plainLetters(name)
	var forms []string
	for _, form := range []string{Fold(name), name, strings.ToUpper(name)} {
		if s := skeleton(form); !slices.Contains(forms, s) {
			forms = append(forms, s)
		}
	}
	return forms
}

// plainLetters returns s in form NFKC, with plain letters in place of those that only
// look different, and that neither NFKC nor TR39 knows as the same.
func plainLetters(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < 0x250:
			return r
		case r >= 0x1f150 && r <= 0x1f169: // on a dark disc
			return 'a' + r - 0x1f150
		case r >= 0x1f170 && r <= 0x1f189: // on a dark square
			return 'a' + r - 0x1f170
		case isRegional(r):
			return 'a' + r - 0x1f1e6
		}
		const capitals, letters = "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz"
		if i := strings.IndexRune(capitals, r); i >= 0 {
			return rune(letters[utf8.RuneCountInString(capitals[:i])])
		}
		return r
	}, norm.NFKC.String(s))
}

// skeleton returns TR39's skeleton of the letters that count. A letter whose skeleton is
// punctuation does not count either, unless the name has no other.
func skeleton(s string) string {
	s = confusable.Skeleton(strings.Map(counted, s))
	if plain := strings.Map(counted, s); plain != "" {
		return plain
	}
	return s
}

// counted returns -1 for a character that does not count where names are compared.
func counted(r rune) rune {
	if Blank(r) || unicode.In(r, unicode.P, unicode.Sm, unicode.Sk, unicode.Sc, unicode.Z, unicode.C) {
		return -1
	}
	return r
}

// LooksLike reports whether two names look alike: whether they share a skeleton.
func LooksLike(a, b string) bool {
	forms := Skeletons(b)
	return slices.ContainsFunc(Skeletons(a), func(s string) bool { return slices.Contains(forms, s) })
}

// house holds the words for those who run the rooms, in the languages of the texts.
// Only they may speak under such a name.
var house = sync.OnceValue(func() []string {
	return loose(
		"chatclub", "messenger", "facebook", "meta", "staff", "system", "sistema", "support", "suporte", "soporte",
		"admin", "admins", "administrator", "administrators", "administrador", "administradora", "administradores",
		"operator", "operators", "operador", "operadora", "operadores",
		"administration", "administração", "administración",
		"moderator", "moderators", "moderador", "moderadora", "moderadores",
		"mod", "mods", "moderation", "moderação", "moderación",
		"owner", "owners", "dono", "dueño", "proprietário", "propietario",
	)
})

// guest is the word of the names that are given, Guest 1 and Guest 2, in the
// languages of the texts.
var guest = sync.OnceValue(func() []string {
	return loose("guest", "convidado", "convidada", "invitado", "invitada")
})

// loose returns the skeletons of words, without marks and with one form for the
// letters that stand for each other in "adm1n".
func loose(words ...string) []string {
	var all []string
	for _, w := range words {
		for _, form := range append(Skeletons(w), Skeletons(strings.ToUpper(w))...) {
			all = append(all, strings.ToLower(strings.Map(func(r rune) rune {
				switch {
				case unicode.Is(unicode.M, r):
					return -1
				case r == 'i' || r == 'I':
					return 'l'
				}
				return r
			}, form)))
		}
	}
	return all
}

// Reserved reports whether no user may choose a name: it looks like one of the
// house, like the Guest 1 that another user was given, or like a number.
func Reserved(name string) bool {
	plain := plainLetters(name)
	notWord := func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) }
	words := strings.FieldsFunc(plain, notWord)
	for _, w := range slices.Concat(words, strings.FieldsFunc(spaced(plain), notWord), []string{strings.Join(words, "")}) {
		if in(house(), loose(w)) || in(house(), loose(strings.TrimFunc(w, unicode.IsNumber))) {
			return true
		}
	}
	numeral := func(r rune) bool { return unicode.IsNumber(r) || r == 'l' || r == 'o' }
	for _, form := range loose(strings.Join(words, "")) {
		for _, g := range guest() {
			if rest, ok := strings.CutPrefix(form, g); ok && strings.TrimFunc(rest, numeral) == "" {
				return true
			}
		}
	}
	return len(words) > 0 && !strings.ContainsFunc(plain, func(r rune) bool { return nameable(r) && !unicode.IsNumber(r) })
}

// spaced returns s with a space before each capital behind a small letter, as in
// AdminBob.
func spaced(s string) string {
	var b strings.Builder
	before := ' '
	for _, r := range s {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}

func in(list, forms []string) bool {
	return slices.ContainsFunc(forms, func(s string) bool { return slices.Contains(list, s) })
}

// Number returns s in the digits 0 to 9 without zeros in front, if it is digits
// alone, of any script.
func Number(s string) (string, bool) {
	var b strings.Builder
	for _, r := range s {
		d, ok := digit(r)
		if !ok {
			return "", false
		}
		b.WriteByte(d)
	}
	if b.Len() == 0 {
		return "", false
	}
	if n := strings.TrimLeft(b.String(), "0"); n != "" {
		return n, true
	}
	return "0", true
}

// digit returns the ASCII digit of a decimal digit. Unicode has those of a script
// in a row, from 0 to 9.
func digit(r rune) (byte, bool) {
	if !unicode.IsDigit(r) {
		return 0, false
	}
	first := r
	for unicode.IsDigit(first - 1) {
		first--
	}
	return byte('0' + (r-first)%10), true
}
