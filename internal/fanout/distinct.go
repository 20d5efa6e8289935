package fanout

import (
	"net/url"
	"slices"
	"strings"

	"chatclub/internal/message"
)

// distinct returns the attachments that can be relayed, and reports whether others
// are left out. The platform tells one thing as two where it changes types: a sticker
// is also an image, and a share a post. A link in a text is also an attachment. So of
// each address there is one attachment, the one whose type says most, and none for a
// link that stands in text.
func distinct(attachments []message.Attachment, text string) (list []message.Attachment, refused bool) {
	at := make(map[string]int, len(attachments))
	var mentioned map[string]bool // nil: it was not needed yet
	for _, a := range attachments {
		if !relayable(a.URL) {
			refused = true
			continue
		}
		k := key(a.URL)
		i, known := at[k]
		if rank(a.Type) == 0 && mentioned == nil {
			mentioned = mentions(text)
		}
		switch {
		case rank(a.Type) == 0 && mentioned[k]:
		case !known:
			at[k] = len(list)
			list = append(list, a)
		case rank(a.Type) > rank(list[i].Type):
			list[i] = a
		}
	}
	return list, refused
}

// rank returns the information in a type: 0 for a type that is relayed as a link.
func rank(kind string) int {
	switch kind {
	case "sticker":
		return 2
	case "image", "video", "audio", "file":
		return 1
	}
	return 0
}

// mentions returns the keys of the addresses that are words of text.
func mentions(text string) map[string]bool {
	const around = `.,;:!?'"()[]<>«»“”„…`
	keys := make(map[string]bool)
	for word := range strings.FieldsSeq(text) {
		if !strings.ContainsRune(word, '.') || strings.Trim(word, around) == "" {
			continue // it has no host
		}
		if _, rest, ok := strings.Cut(word, "://"); ok {
			word = rest
		}
		for _, form := range slices.Compact([]string{word, strings.TrimRight(word, around), strings.Trim(word, around)}) {
			keys[key("https://"+form)] = true
		}
	}
	return keys
}

// key returns the form by which addresses are compared: without the platform's
// wrapper and its mark, the scheme, "www.", a slash at the end and a fragment.
func key(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return link
	}
	q := u.Query()
	host := strings.TrimPrefix(strings.ToLower(u.Host), "www.")
	if to, err := url.Parse(q.Get("u")); err == nil && to.Host != "" && u.Path == "/l.php" &&
		(strings.HasSuffix("."+host, ".facebook.com") || host == "l.messenger.com") {
		u, q, host = to, to.Query(), strings.TrimPrefix(strings.ToLower(to.Host), "www.")
	}
	q.Del("fbclid")
	return host + strings.TrimSuffix(u.Path, "/") + "?" + q.Encode()
}
