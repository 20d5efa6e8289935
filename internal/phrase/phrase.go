// Package phrase holds every text that chatclub writes to a user, in English,
// Portuguese and Spanish. It guarantees that every language has every Key with
// the same placeholders; a test checks it. So Text always has a text.
//
// The catalogues are embedded files, one per language. A key has one text, or
// two of which the argument "n" chooses: a text for one and a text for others.
// A placeholder is written {name}.
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

// Args are the values of a text's placeholders, by name. A value is inserted
// unchanged, and a brace within it means nothing.
type Args map[string]any

// English is the language for users of any other language.
const English = "en"

// Languages returns the languages that every text exists in.
func Languages() []string { return []string{English, "pt", "es"} }

//go:embed en.json pt.json es.json
var files embed.FS

// entry is a text in a catalogue: a string, or an object with one and other.
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

// catalogues returns all languages, read once. The files are embedded and
// tested, so reading them cannot fail in a program.
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

// Language returns the language of a locale in Messenger's form, such as
// "pt_BR" or "es-419": "en", "pt" or "es". Unknown locales are English.
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

// Text returns the text of key in the language of the locale. A placeholder
// without a value stays in the text, and an unknown key is returned as the
// text. Both are mistakes of the caller.
func Text(locale string, key Key, args Args) string {
	e, ok := catalogues()[Language(locale)][key]
	if !ok {
		return string(key)
	}
	text := e.Other
	if n, ok := args["n"].(int); ok && n == 1 {
		text = e.One
	}
	var values []string
	for name, v := range args {
		values = append(values, "{"+name+"}", fmt.Sprint(v))
	}
	return strings.NewReplacer(values...).Replace(text)
}

// Span returns a duration in words that all the languages share: "2 d",
// "1 h 30 min". A part of a minute counts as a whole one. From one day on,
// minutes are left out.
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
