package plaintext

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/runenames"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                          "",
		" \t\n ":                    "",
		" Hello  you ":              "Hello  you",
		"a\tb\nc":                   "a\tb\nc",
		"a\r\nb\rc\u2028d\u0085e\v": "a\nb\nc\nd\ne",
		"a\n\n\n\n\n\nb":            "a\n\n\nb",
		"a\x00b\x1b[31mc\x7f\u009f": "ab[31mc",
		"\xff\xfea":                 "\ufffd\ufffda",
		"\xed\xa0\x80":              "\ufffd\ufffd\ufffd", // half a surrogate pair
		// An override would show gpj.exe as exe.jpg.
		"evil\u202egpj.exe":                "evilgpj.exe",
		"\u202a\u202b\u202cx\u202d":        "x",
		"\u2066a\u2067b\u2068c\u2069":      "abc",
		"שלום\u200f, \u200eAnn":            "שלום\u200f, \u200eAnn", // direction marks are ordinary
		"\ufeffa\ufff9":                    "a",
		"\u200b\u2060\u00ad":               "", // invisible
		"\u3164\u2800":                     "",
		"\U000e0080\u2065\ufff0":           "", // default-ignorable, but not assigned yet
		"\u0301\u0301":                     "",
		"e" + strings.Repeat("\u0301", 50): "e\u0301\u0301\u0301\u0301",
		"👩‍👩‍👧 ❤️ 🇩🇪 👍🏽":                   "👩‍👩‍👧 ❤️ 🇩🇪 👍🏽",
		"\ue000\U000f0000\ufdd0a":          "a",
		`'; DROP TABLE users; --`:          `'; DROP TABLE users; --`,
		"$(rm -rf /) `id` | a && b > c":    "$(rm -rf /) `id` | a && b > c",
		"<script>alert(1)</script>":        "<script>alert(1)</script>",
		"%s %n {name} \\u0000":             "%s %n {name} \\u0000",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 30)
	for _, tt := range []struct {
		in, want string
		err      error
	}{
		{"Ann", "Ann", nil},
		{"  Ann \n\t Lee ", "Ann Lee", nil},
		{"Guest 17", "Guest 17", nil},
		{"Renée O'Hara-Łuk", "Renée O'Hara-Łuk", nil},
		{"محمد", "محمد", nil},
		{"日本", "日本", nil},
		{"🦊", "🦊", nil},
		{"<b>Ann</b>", "<b>Ann</b>", nil},
		{"A\u200bn\u200dn\ufe0f\u3164", "Ann", nil},
		{"A\u202enn\x00", "Ann", nil},
		{"A\u034fn\u2065n\ufff8\U000e0080\U000e01f0\U000e0fff", "Ann", nil},
		{"Jose\u0301", "José", nil},
		{"Jose\u034f\u0301", "José", nil},
		{"\u1112\u1161\u11ab", "한", nil},
		{"\u0958\u093c\u093c\u093c\u093c", "\u0915\u093c\u093c\u093c\u093c", nil}, // one character more in form C
		{"\xffAnn", "Ann", nil},
		{"Z" + strings.Repeat("\u0336", 20), "Z\u0336\u0336\u0336\u0336", nil},
		{long, long, nil},
		{long + "ä", "", ErrNameLong},
		{"", "", ErrNameInvalid},
		{"...", "", ErrNameInvalid},
		{"\u0301a", "", ErrNameInvalid},
		{"\u200b", "", ErrNameInvalid},
		{"Ann:", "", ErrNameInvalid},
		{"Ann： hi", "", ErrNameInvalid},
		{"Bob\u2236", "", ErrNameInvalid},
		{"/who", "", ErrNameInvalid},
		{"／who", "", ErrNameInvalid},
		{"↳ Bob", "", ErrNameInvalid},
		{"\u200b⤷ Bob", "", ErrNameInvalid},
		{"└ Bob", "", ErrNameInvalid},
		{"🔄 Ann", "", ErrNameInvalid},
		{"Ann → Bob", "", ErrNameInvalid},
		{"Bob -> Cy", "", ErrNameInvalid},
		{"Bob =\u200b＞ Cy", "", ErrNameInvalid},
		{"Bob –› Cy", "", ErrNameInvalid},
		{"Bob ⟶ Cy", "", ErrNameInvalid},
		{"Bob ➡️ Cy", "", ErrNameInvalid},
		{"Bob ⧴ Cy", "", ErrNameInvalid},
		{"Ann-Lee <3", "Ann-Lee <3", nil},
		{"«Ann» >_<", "«Ann» >_<", nil},
		{"Ann 💘", "Ann 💘", nil},
		{"Ann ─ x", "Ann ─ x", nil},
		{"Bob⁚ I quit: call 555", "", ErrNameInvalid},
		{"Bob⁚ I quit", "", ErrNameInvalid},
		{"Bobꓽ hi", "", ErrNameInvalid},
		{"Bob᛬", "", ErrNameInvalid},
		{"Bob\u1804 hi", "", ErrNameInvalid},
		{"Bob፡ hi", "", ErrNameInvalid},
		{"Bobः hi", "", ErrNameInvalid},
		{"Bobः", "", ErrNameInvalid},
		{"रामः hi", "", ErrNameInvalid},
		{"रामःx", "", ErrNameInvalid},
		{"दुःख राम", "दुःख राम", nil},
		{"श्री रामः", "श्री रामः", nil},
		{"અંતઃકરણ", "અંતઃકરણ", nil},
		{"ꓡꓲꓽꓢꓴꓽ", "ꓡꓲꓽꓢꓴꓽ", nil},
		{"⭐ Ann", "⭐ Ann", nil},
		{strings.Repeat("x", 64<<10), "", ErrNameLong},
	} {
		if got, err := Name(tt.in); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("Name(%.60q) = %q, %v, want %q, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}

// TestColons derives the look-alikes of a colon from Unicode's data, and checks that no
// such character, alone or behind a name, passes for the colon behind it.
func TestColons(t *testing.T) {
	t.Parallel()
	found := 0
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if !strings.Contains(confusable.Skeleton(string(r))+norm.NFKC.String(string(r)), ":") {
			continue
		}
		found++
		if name, err := Name("Bob" + string(r) + " hi"); err == nil {
			t.Errorf("Name(Bob%c hi) = %q with %U, which looks like a colon", r, name, r)
		}
		if !LooksLike("Bob"+string(r), "Bob") && !strings.Contains(norm.NFKC.String(string(r)), "=") {
			t.Errorf("LooksLike(Bob%c, Bob) = false with %U, want true", r, r)
		}
	}
	if found < 20 {
		t.Errorf("characters that look like a colon = %d, want 20 at least: the data is not read", found)
	}
}

// TestArrows: whatever Unicode calls an arrow, no rename can be forged with it.
func TestArrows(t *testing.T) {
	t.Parallel()
	for r := rune(0x80); r <= 0x1ffff; r++ {
		called := runenames.Name(r)
		if !strings.Contains(called, "RIGHTWARDS ARROW") && !strings.Contains(called, "RIGHT ARROW") || strings.Contains(called, "ARROWHEAD") || strings.Contains(called, "PHONE") {
			continue
		}
		if name, err := Name("Bob " + string(r) + " Cy"); err == nil && !strings.Contains(called, "EMPTY SET") {
			t.Errorf("Name(Bob %c Cy) = %q with %U %s", r, name, r, called)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"ANN", "ann"}, {"Łuk", "łuk"}, {"ΣΑΣ", "σας"}, {"\u212a", "k"}, {"ſ", "S"}, {"JOSE\u0301", "josé"}, {"J\u030c", "\u01f0"}} {
		if Fold(pair[0]) != Fold(pair[1]) {
			t.Errorf("Fold(%q) = %q, Fold(%q) = %q, want the same", pair[0], Fold(pair[0]), pair[1], Fold(pair[1]))
		}
	}
	if Fold("Ann") == Fold("Ana") {
		t.Error("Fold(Ann) = Fold(Ana), want them different")
	}
}

func TestRightToLeft(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{"Ann": false, "日本": false, "Renée": false, "شخص": true, "Ann דוד": true, "": false} {
		if got := RightToLeft(in); got != want {
			t.Errorf("RightToLeft(%q) = %t, want %t", in, got, want)
		}
	}
}

// harmful reports whether r may be neither in a text nor in a name. It spells
// out code points and does not use the tables of the code.
func harmful(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x206f || r == 0x2028 || r == 0x2029
}

var seeds = []string{
	"", " ", "Hello", "a\r\n\r\n\r\n\r\nb", "\x00\x1b[2J", "\u202eabc\u2066", "\xff\xfe\xfd", "\xed\xa0\x80",
	"e\u0301\u0301\u0301\u0301\u0301\u0301", "👩‍👩‍👧", "🇩🇪🇩🇪", "\u3164", "Ann: hi", "/join", "\ufdd0\ue000",
	"'; DROP TABLE users; --", "<b>", "\u200d\u200d", "\u0085\u0085\u0085\u0085", " \n\u202e\n \n\n\n",
	"Jose\u034f\u0301", "\u0958\u093c\u093c\u093c\u093c", "\u1112\u034f\u1161", "a\u0344\u0344\u0344 \u0301b", "\U000e0080",
}

func FuzzClean(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, harmful) {
			t.Errorf("Clean(%q) = %q, want it harmless", s, got)
		}
		if again := Clean(got); again != got {
			t.Errorf("Clean(%q) = %q, and cleaned again %q, want it to stay", s, got, again)
		}
		if got != strings.TrimSpace(got) {
			t.Errorf("Clean(%q) = %q, want no white space around it", s, got)
		}
	})
}

func FuzzName(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Name(s)
		if err != nil {
			if got != "" {
				t.Errorf("Name(%q) = %q with error %v, want no name", s, got, err)
			}
			return
		}
		if n := utf8.RuneCountInString(got); n < 1 || n > 30 || !utf8.ValidString(got) {
			t.Errorf("Name(%q) = %q, want 1 to 30 valid runes", s, got)
		}
		for _, r := range got {
			if harmful(r) || r == 0x034f || r == 0x2065 || r >= 0xfff0 && r <= 0xfff8 || r >= 0xe0000 && r <= 0xe0fff || unicode.IsSpace(r) && r != ' ' || unicode.Is(unicode.Cf, r) || r == ':' || r == '\ufffd' {
				t.Errorf("Name(%q) = %q, which holds %U", s, got, r)
			}
		}
		if strings.Contains(got, "  ") || strings.HasPrefix(got, "/") {
			t.Errorf("Name(%q) = %q, want single spaces and no slash in front", s, got)
		}
		if again, err := Name(got); again != got || err != nil {
			t.Errorf("Name(%q) = %q, and named again %q, %v, want it to stay", s, got, again, err)
		}
	})
}
