package sender

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"

	"chatclub/internal/message"
)

const (
	// maxSentence bounds the platform's message, in bytes; the longest seen has 190.
	maxSentence = 250
	// maxWord is the longest word of it that is kept. Tokens are longer.
	maxWord = 40
	hidden  = "…"
)

// sentence returns the platform's message as one line, without words that may be a
// token or an address of people's. One that is about a token quotes it: nothing is kept.
func sentence(text string) string {
	if strings.Contains(strings.ToLower(text), "token") {
		return ""
	}
	words := strings.Fields(strings.ToValidUTF8(text, "\ufffd"))
	for i, w := range words {
		if len(w) > maxWord || strings.Contains(w, "://") {
			words[i] = hidden
		}
	}
	line := strings.Join(words, " ")
	if len(line) > maxSentence {
		line = strings.ToValidUTF8(line[:maxSentence], "") + hidden
	}
	return line
}

const (
	// minHidden is the shortest text that is looked for in a sentence: shorter ones are in
	// many words.
	minHidden = 4
	// quotedWords is the number of words in a row that a sentence has of a text when it quotes
	// the text: two in a row may be anybody's.
	quotedWords = 3
)

// hide takes the call's token, and what the call sent, out of the error. What a sentence
// quotes may be cut off or changed, so that it is found nowhere: the sentence is kept up to
// the first quote or brace alone. A call that sent nothing is quoted nowhere.
func (e *apiError) hide(token string, sent ...string) {
	if token != "" {
		e.sentence = strings.ReplaceAll(e.sentence, token, hidden)
	}
	if len(sent) == 0 {
		return
	}
	e.kind, e.trace = name(e.kind), name(e.trace)
	e.sentence = unquoted(e.sentence)
	for _, text := range sent {
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.Join(strings.Fields(line), " "); len(line) >= minHidden {
				e.sentence = strings.ReplaceAll(e.sentence, line, hidden)
			}
		}
		e.sentence = withoutWordsOf(e.sentence, text)
	}
}

// name returns a text that has the form of a name, and otherwise hides it: the platform's
// types and traces have no other characters.
func name(text string) string {
	isOther := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-+/=", r)
	}
	if strings.ContainsFunc(text, isOther) {
		return hidden
	}
	return text
}

// apostrophe matches the rest of a word behind its apostrophe, as in can't, it's and you're.
var apostrophe = regexp.MustCompile(`^['’](s|t|d|m|re|ll|ve)([^\pL'’]|$)`)

// unquoted returns a sentence up to the first quote or brace.
func unquoted(line string) string {
	before := ' '
	for i, r := range line {
		isQuote := r == '{' || r == '`' || unicode.Is(unicode.Quotation_Mark, r)
		isInWord := isQuote && unicode.IsLetter(before) && apostrophe.MatchString(line[i:])
		if isQuote && !isInWord {
			return strings.TrimRight(line[:i], " [(:") + " " + hidden
		}
		before = r
	}
	return line
}

// withoutWordsOf returns a sentence in which words in a row that are in a text, too, are
// hidden.
func withoutWordsOf(line, text string) string {
	bare := func(word string) string {
		return strings.ToLower(strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }))
	}
	said, words := strings.Fields(text), strings.Fields(line)
	if len(words) < quotedWords || len(said) < quotedWords {
		return line
	}
	for i := range said {
		said[i] = bare(said[i])
	}
	within := " " + strings.Join(said, " ") + " "
	found := make([]bool, len(words))
	for i := 0; i+quotedWords <= len(words); i++ {
		row := make([]string, quotedWords)
		for k := range row {
			row[k] = bare(words[i+k])
		}
		if strings.Contains(within, " "+strings.Join(row, " ")+" ") {
			for k := range row {
				found[i+k] = true
			}
		}
	}
	var kept []string
	for i, word := range words {
		switch {
		case !found[i]:
			kept = append(kept, word)
		case i == 0 || !found[i-1]:
			kept = append(kept, hidden)
		}
	}
	return strings.Join(kept, " ")
}

// textsOf returns the texts of a message that a call sends; none of a sender action.
func textsOf(o message.Outbound) (texts []string) {
	if o.Text != "" {
		texts = append(texts, o.Text)
	}
	for _, r := range o.Replies {
		texts = append(texts, r.Title, r.Payload)
	}
	if o.Attachment != nil {
		texts = append(texts, o.Attachment.URL)
	}
	if o.Payload != nil {
		var content any
		_ = json.Unmarshal(o.Payload, &content) // it was decoded before
		texts = append(texts, string(o.Payload))
		eachText(content, func(text string) { texts = append(texts, text) })
	}
	return texts
}

// eachText calls do with each text of a JSON value; the names of fields are none.
func eachText(value any, do func(text string)) {
	switch v := value.(type) {
	case string:
		do(v)
	case []any:
		for _, one := range v {
			eachText(one, do)
		}
	case map[string]any:
		for _, one := range v {
			eachText(one, do)
		}
	}
}
