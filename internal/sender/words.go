package sender

import (
	"slices"
	"strings"
)

// The words, in lower case, of errors whose code does not say what is at fault.
var (
	// noRecipient: the platform gives these faults of the recipient no subcode.
	noRecipient = [...]string{"invalid fbid", "no matching user found", "the requested user cannot be found"}
	// noPage: the object of the call, which is the page, cannot be reached with this token.
	noPage = [...]string{"object does not exist", "unsupported post request"}
	// ofContent: the message is at fault.
	ofContent = [...]string{"content", "reported as abusive", "blocked from being shared"}
	// ofPage: the page is at fault, also where its content is named.
	ofPage = [...]string{"account", "page"}
)

// mentions reports whether a text has one of some words.
func mentions(text string, words []string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// isAboutContent reports whether the words of a block are about the content of the message,
// and not about who sends. In doubt they are not: a page that is blocked must not have all
// of its messages die one by one.
func isAboutContent(text string) bool {
	return !mentions(text, ofPage[:]) && (mentions(text, ofContent[:]) || hasLink(text))
}

// hasLink reports whether a text has a link that is none to the platform's help.
func hasLink(text string) bool {
	for rest, found := strings.ToLower(text), true; found; {
		if _, rest, found = strings.Cut(rest, "://"); found {
			host, _, _ := strings.Cut(rest, "/")
			if host != "facebook.com" && !strings.HasSuffix(host, ".facebook.com") {
				return true
			}
		}
	}
	return false
}
