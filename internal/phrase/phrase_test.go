package phrase

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// declared returns every Key of key.go with the placeholders that its comment
// lists.
func declared(t *testing.T) map[Key][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "key.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[Key][]string)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if _, twice := keys[Key(value)]; err != nil || twice {
			t.Fatalf("constant %s = %q, want a string of its own", spec.Names[0].Name, value)
		}
		keys[Key(value)] = placeholders(spec.Comment.Text())
		return true
	})
	return keys
}

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

func placeholders(text string) []string {
	found := make(map[string]bool)
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// TestCatalogues checks that every language has every key, with the placeholders
// that the key's comment lists, within Messenger's bounds.
func TestCatalogues(t *testing.T) {
	t.Parallel()
	keys := declared(t)
	if len(keys) < 50 {
		t.Fatalf("keys declared = %d, want all of them", len(keys))
	}
	for _, language := range []string{"en", "pt", "es"} {
		raw, err := files.ReadFile(language + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var texts map[Key]json.RawMessage
		if err := json.Unmarshal(raw, &texts); err != nil {
			t.Fatalf("%s.json: %v", language, err)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(keys)), slices.Sorted(maps.Keys(texts))); diff != "" {
			t.Errorf("%s.json: keys: -declared +there\n%s", language, diff)
		}
		if n := strings.Count(string(raw), "\n  \""); n != len(texts) {
			t.Errorf("%s.json has %d keys on %d lines, want none twice", language, len(texts), n)
		}
		for key, raw := range texts {
			forms := map[string]string{}
			if raw[0] == '{' {
				if err := json.Unmarshal(raw, &forms); err != nil || len(forms) != 2 || forms["one"] == "" || forms["other"] == "" {
					t.Errorf("%s.json: %s = %s, want one and other", language, key, raw)
				}
			} else {
				var text string
				if err := json.Unmarshal(raw, &text); err != nil {
					t.Errorf("%s.json: %s: %v", language, key, err)
				}
				forms["other"] = text
			}
			for form, text := range forms {
				checkText(t, language+" "+string(key)+" "+form, text, keys[key])
			}
		}
	}
}

func checkText(t *testing.T, where, text string, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, placeholders(text)); diff != "" {
		t.Errorf("%s: placeholders: -want +got\n%s", where, diff)
	}
	if strings.TrimSpace(text) != text || text == "" || !utf8.ValidString(text) || utf8.RuneCountInString(text) > 1000 {
		t.Errorf("%s = %q, want a text of at most 1,000 characters without white space around it", where, text)
	}
	if strings.Contains(text, ": ") {
		t.Errorf("%s = %q, which can be taken for what somebody of that name says", where, text)
	}
	if strings.Contains(where, " button_") && len(want) == 0 && utf8.RuneCountInString(text) > 20 {
		t.Errorf("%s = %q has %d characters, want at most 20 on a button", where, text, utf8.RuneCountInString(text))
	}
}

// TestHelpNamesEveryCommand checks that the help of every language lists all
// commands and nothing else.
func TestHelpNamesEveryCommand(t *testing.T) {
	t.Parallel()
	want := []string{"/rooms", "/join", "/leave", "/who", "/name", "/block", "/unblock", "/mute", "/report", "/help"}
	for _, locale := range []string{"en_US", "pt_BR", "es_ES"} {
		got := regexp.MustCompile(`(?m)^/[a-z]+`).FindAllString(Text(locale, Help, nil), -1)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("commands of help in %s: -want +got\n%s", locale, diff)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		locale string
		key    Key
		args   Args
		want   string
	}{
		{"en_US", NameChanged, Args{"name": "Ann"}, "You are Ann now."},
		{"pt_BR", NameChanged, Args{"name": "Ann"}, "Agora você é Ann."},
		{"es_LA", NameChanged, Args{"name": "Ann"}, "Ahora te llamas Ann."},
		{"de_DE", NameChanged, Args{"name": "Ann"}, "You are Ann now."},
		{"", Where, Args{"room": "jazz", "n": 1}, "You are in room jazz with 1 other."},
		{"", Where, Args{"room": 3, "n": 0}, "You are in room 3 with 0 others."},
		{"pt-PT", Where, Args{"room": 3, "n": 1}, "Você está na sala 3 com mais 1 pessoa."},
		{"es-419", Where, Args{"room": 3, "n": 2}, "Estás en la sala 3 con 2 personas más."},
		// Braces within a value mean nothing.
		{"en", RoomFull, Args{"room": "{next}", "next": "{room}{"}, "Room {next} is full, so you are in room {room}{."},
		{"en", NameTaken, nil, "{name} is the name of somebody who is or was here, or looks like it. Please choose another name."},
		{"en", "nothing", nil, "nothing"},
	} {
		if got := Text(tt.locale, tt.key, tt.args); got != tt.want {
			t.Errorf("Text(%q, %s, %v) = %q, want %q", tt.locale, tt.key, tt.args, got, tt.want)
		}
	}
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	for locale, want := range map[string]string{
		"": "en", "en_GB": "en", "pt_BR": "pt", "pt": "pt", "PT-br": "pt", "es_ES": "es", "es-419": "es",
		"fr_FR": "en", "ptx": "en", "_": "en", "../pt": "en", "\x00": "en",
	} {
		if got := Language(locale); got != want {
			t.Errorf("Language(%q) = %q, want %q", locale, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "1 min", 0: "1 min", time.Second: "1 min", time.Minute: "1 min", time.Minute + 1: "2 min",
		59*time.Minute + time.Second: "1 h", 90 * time.Minute: "1 h 30 min", 24 * time.Hour: "1 d",
		25*time.Hour + 7*time.Minute: "1 d 1 h", 7 * 24 * time.Hour: "7 d",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) = %q, want %q", d, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("pt_BR", "welcome", "Ann", 1)
	f.Add("", "room_full", "{name}{", 0)
	f.Fuzz(func(t *testing.T, locale, key, name string, n int) {
		if Text(locale, Key(key), Args{"name": name, "room": name, "n": n}) == "" && key != "" {
			t.Errorf("Text(%q, %q) is empty", locale, key)
		}
	})
}
