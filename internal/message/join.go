package message

import (
	"strings"

	"chatclub/internal/plaintext"
)

// The Send API's bounds of one message.
const (
	MaxText     = 2000 // characters of text, as plaintext.Len counts them
	MaxMetadata = 999  // characters of metadata, in which the ids travel: "less than 1000 characters"
)

// Join returns the first message with the texts of as many of the others behind
// it as can go with it, each on a line of its own, and how many it is made of.
// Its ID is their ids, separated by spaces. list has messages to one recipient
// in order, and is not empty. A message that does not join, or is longer than
// the Send API takes, ends it; most bounds it, too.
func Join(list []Outbound, most int) (o Outbound, n int) {
	o = list[0]
	if !o.joins() {
		return o, 1
	}
	text, ids := plaintext.Len(o.Text), len(o.ID)
	for n = 1; n < min(len(list), most); n++ {
		next := &list[n] //nolint:gosec // n is below its length
		text += 1 + plaintext.Len(next.Text)
		ids += 1 + len(next.ID)
		if !next.joins() || next.Class != o.Class || text > MaxText || ids > MaxMetadata {
			break
		}
	}
	if n == 1 {
		return o, 1
	}
	texts, all := make([]string, n), make([]string, n)
	for i := range n {
		texts[i], all[i] = list[i].Text, list[i].ID //nolint:gosec // n is at most its length
	}
	o.Text, o.ID = strings.Join(texts, "\n"), strings.Join(all, " ")
	return o, n
}

// joins reports whether a message can go with others: it is nothing but text,
// and its id can be told from theirs.
func (o *Outbound) joins() bool {
	return o.Joins && o.Attachment == nil && len(o.Replies) == 0 && o.Broadcast == "" && !o.hasOwn() && !strings.ContainsRune(o.ID, ' ')
}
