package plaintext

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLooksLike has names that one could take for each other, and names that one
// could not.
func TestLooksLike(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"Ann", "Ann", true},
		{"Ann", "ANN", true},
		{"Вова", "вова", true}, // in Cyrillic
		{"Νίκος", "ΝΊΚΟΣ", true},
		{"Ann", "Аnn", true}, // a Cyrillic А
		{"Bob", "Bоb", true},
		{"Bob", "ВОВ", true}, // all Cyrillic
		{"Tom", "TOМ", true},
		{"Ann", "Ａnn", true},
		{"Ann", "𝐀𝐧𝐧", true},
		{"Ann", "Ⓐnn", true},
		{"Nick", "Νick", true}, // a Greek Ν
		{"lars", "Iars", true},
		{"Bill", "BiII", true},
		{"bob", "b0b", true},
		{"Tom", "Torn", true},
		{"Bob", "Bob.", true},
		{"Bob", "Bob…", true},
		{"Bob", "B ob", true},
		{"Bob", "Bob'", true},
		{"Bob", "Bob\u200b", true},
		{"Ana 2", "Ana2", true},
		{"Guest 1", "Guest l", true},
		{"José", "JOSE\u0301", true},
		{"Bob", "ʙᴏʙ", true},
		{"Bob", "🅱🅾🅱", true},
		{"Bob", "🇧🇴🇧", true},
		{"Bob", "Bobꓽ", true},
		{"राम", "रामः", true},

		{"Ann", "Ana", false},
		{"Nell", "Neil", false},
		{"Lia", "Ila", false},
		{"Ana", "Ava", false},
		{"Nick", "Vick", false},
		{"José", "Jose", false},
		{"Guest 1", "Guest 2", false},
		{"Ana", "Ana 2", false},
		{"🦊", "🐺", false},
		{"日", "月", false},
	} {
		if got := LooksLike(tt.a, tt.b); got != tt.want {
			t.Errorf("LooksLike(%q, %q) = %t of %q and %q, want %t", tt.a, tt.b, got, Skeletons(tt.a), Skeletons(tt.b), tt.want)
		}
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"chatclub": true, "ChatClub": true, "chat club": true, "сhatсlub": true, "chatclub!": true,
		"admin": true, "ADMIN": true, "Аdmin": true, "АDМIN": true, "adm1n": true, "ádmin": true, "a.d.m.i.n": true, "Admin 2": true,
		"admin1": true, "Bob (admin)": true, "𝐀𝐝𝐦𝐢𝐧": true, "Operator": true, "Operadora": true, "moderator": true, "System": true,
		"Guest": true, "Guest 1": true, "guest 17": true, "Guest1": true, "Guest l": true, "Guest O": true, "Ｇｕｅｓｔ １": true, "Guest ٢": true,
		"ᴀᴅᴍɪɴ": true, "🅰🅳🅼🅸🅽": true, "🇦🇩🇲🇮🇳": true, "🅐🅓🅜🅘🅝": true, "ᴀᴅᴍɪɴBob": true, "AdminBob": true, "BobAdmin": true, "Bob Mod": true, "bobMod": true,
		"Mod": true, "Mods": true, "Moderação": true, "moderacao": true, "Moderación": true, "Owner": true, "Dono": true, "Dueño": true, "Meta": true,
		"Convidado 1": true, "Convidada": true, "convidado2": true, "Invitado 3": true,
		"7": true, "007": true, "٣": true, "1 2": true, "½": true, "12.": true,

		"Ann": false, "Guest Ann": false, "Guesthouse": false, "Adminah": false, "Systems": false, "Chat": false, "Ann 7": false,
		"Convidado João": false, "Modric": false, "Metallica": false, "McDonald": false, "Ann 🇧🇷": false, "Don Omar": false,
		"7 of 9": false, "🦊": false, "日": false, "Modesta": false, "": false,
	} {
		if got := Reserved(name); got != want {
			t.Errorf("Reserved(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"7": "7", "007": "7", "0": "0", "000": "0", "١٢": "12", "۵": "5", "１０": "10", "𝟗𝟙": "91", "९": "9",
		"99999999999999999999999": "99999999999999999999999",
		"":                        "", "-1": "", "1a": "", "½": "", "²": "", "Ⅳ": "", "x": "",
	} {
		if got, ok := Number(in); got != want || ok != (want != "") {
			t.Errorf("Number(%q) = %q, %t, want %q", in, got, ok, want)
		}
	}
}

func FuzzSkeletons(f *testing.F) {
	for _, s := range append(seeds, "Аnn", "ВОВ", "Guest 1", "ǃǃ", "٠", "...") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Skeletons(s)
		if len(got) < 1 || len(got) > MaxSkeletons {
			t.Fatalf("Skeletons(%q) = %q, want 1 to %d", s, got, MaxSkeletons)
		}
		for _, other := range []string{strings.ToUpper(s), strings.ToLower(s)} {
			if utf8.ValidString(s) && Fold(s) == Fold(other) && !LooksLike(s, other) {
				t.Errorf("LooksLike(%q, %q) = false, want names that differ in case alone to look alike", s, other)
			}
		}
		name, err := Name(s)
		if err != nil {
			return
		}
		if slices.Contains(Skeletons(name), "") {
			t.Errorf("Skeletons(%q) = %q, want none empty", name, Skeletons(name))
		}
		if !LooksLike(name, name+".") && utf8.RuneCountInString(name) < MaxName {
			t.Errorf("LooksLike(%q, with a full stop) = false, want true", name)
		}
		Reserved(name)
	})
}
