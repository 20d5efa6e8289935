// Package phrase holds every text that chatclub says to a user, in English,
// Portuguese and Spanish. Every language has every Key with the same
// placeholders, which a test keeps so: Text always has something to say.
//
// The catalogues are embedded files, one a language: a key has a text, or a
// text for one and one for others, chosen by the argument "n". A placeholder
// is written {name}.
//
// Everything is safe for concurrent use.
package phrase

import (
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Args are the values of a text's placeholders, by name. They are put in as
// they are, once: a brace within a value means nothing.
type Args map[string]any

// English is the language of who speaks none of the others.
const English = "en"

// Languages returns the languages that every text exists in.
func Languages() []string { return []string{English, "pt", "es"} }

//go:embed en.json pt.json es.json
var files embed.FS

// entry is a text as the catalogue has it: a string, or {"one", "other"}.
type entry struct{ One, Other string }

// UnmarshalJSON implements json.Unmarshaler.
func (e *entry) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		err := json.Unmarshal(b, &e.Other)
		e.One = e.Other
		return err
	}
	type plain entry // without this method
	return json.Unmarshal(b, (*plain)(e))
}

// catalogues are all languages, read once. The files are part of the program
// and tested, so that reading them cannot fail where the program runs.
var catalogues = sync.OnceValue(func() map[string]map[Key]entry {
	all := make(map[string]map[Key]entry)
	for _, language := range Languages() {
		raw, err := files.ReadFile(language + ".json")
		if err != nil {
			panic(err)
		}
		var texts map[Key]entry
		if err := json.Unmarshal(raw, &texts); err != nil {
			panic(fmt.Errorf("%s.json: %w", language, err))
		}
		all[language] = texts
	}
	return all
})

// Language is the language for a locale as Messenger tells it ("pt_BR",
// "es-419"): "en", "pt" or "es". What is unknown is English.
func Language(locale string) string {
	if i := strings.IndexAny(locale, "_-"); i >= 0 {
		locale = locale[:i]
	}
	language := strings.ToLower(strings.TrimSpace(locale))
	if _, ok := catalogues()[language]; ok {
		return language
	}
	return English
}

// Text says key in the language of the locale. A placeholder without a value
// stays as it is, and a key that does not exist is its own text: both are
// mistakes of the caller.
func Text(locale string, key Key, args Args) string {
	e, ok := catalogues()[Language(locale)][key]
	if !ok {
		return string(key)
	}
	text := e.Other
	if n, ok := args["n"].(int); ok && n == 1 {
		text = e.One
	}
	return fill(text, args)
}

func fill(text string, args Args) string {
	if len(args) == 0 {
		return text
	}
	var b strings.Builder
	for {
		begin := strings.IndexByte(text, '{')
		if begin < 0 {
			break
		}
		length := strings.IndexByte(text[begin:], '}')
		if length < 0 {
			break
		}
		end := begin + length + 1
		b.WriteString(text[:begin])
		if v, ok := args[text[begin+1:end-1]]; ok {
			_, _ = fmt.Fprint(&b, v) // a Builder takes everything
		} else {
			b.WriteString(text[begin:end])
		}
		text = text[end:]
	}
	b.WriteString(text)
	return b.String()
}

// Span is a duration in words that all the languages share: "2 d", "1 h 30 min".
// Parts of a minute count as a whole one; from a day on, minutes are left out.
func Span(d time.Duration) string {
	minutes := max(1, int((d+time.Minute-1)/time.Minute))
	days, hours, minutes := minutes/(24*60), minutes/60%24, minutes%60
	var words []string
	word := func(n int, unit string) {
		if n > 0 {
			words = append(words, strconv.Itoa(n)+" "+unit)
		}
	}
	word(days, "d")
	word(hours, "h")
	if days == 0 {
		word(minutes, "min")
	}
	return strings.Join(words, " ")
}
