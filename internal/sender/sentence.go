package sender

import "strings"

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

// minHidden is the shortest text that is looked for in a sentence: shorter ones are in
// many words.
const minHidden = 4

// hide takes the call's token, and the texts that it sent, out of the sentence.
func (e *apiError) hide(token string, sent ...string) {
	if token != "" {
		e.sentence = strings.ReplaceAll(e.sentence, token, hidden)
	}
	for _, text := range sent {
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.Join(strings.Fields(line), " "); len(line) >= minHidden {
				e.sentence = strings.ReplaceAll(e.sentence, line, hidden)
			}
		}
	}
}
