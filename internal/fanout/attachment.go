package fanout

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"chatclub/internal/message"
	"chatclub/internal/plaintext"
)

// file is an attachment as it is relayed.
type file struct {
	sign string // a picture of its kind, understood in every language
	part message.Outbound
}

// relay returns the attachments that can be relayed, at most maxAttachments,
// and how many more there were. One whose address is not a web address is
// left out.
func relay(attachments []message.Attachment) (files []file, more int) {
	for _, a := range attachments {
		if !relayable(a.URL) {
			continue
		}
		if len(files) == maxAttachments {
			more++
			continue
		}
		files = append(files, relayOne(a))
	}
	return files, more
}

// relayOne makes an attachment a message of its quota class. A sticker is sent
// on as the picture that it is; what the Send API has no type for, such as a
// reel or a shared link, goes as its address.
func relayOne(a message.Attachment) file {
	attach := func(sign, kind string, class message.Class) file {
		return file{sign, message.Outbound{Class: class, Attachment: &message.Attachment{Type: kind, URL: a.URL}}}
	}
	switch a.Type {
	case "image":
		return attach("📷", "image", message.ClassText)
	case "sticker":
		return attach("🏷️", "image", message.ClassText)
	case "video":
		return attach("🎬", "video", message.ClassMedia)
	case "audio":
		return attach("🎤", "audio", message.ClassMedia)
	case "file":
		return attach("📎", "file", message.ClassText)
	default:
		return file{"🔗", textPart(a.URL)}
	}
}

// relayable tells whether an address may be passed on: an absolute web
// address without white space or control characters, of a length that still
// fits where it goes as text.
func relayable(address string) bool {
	if address == "" || !utf8.ValidString(address) || plaintext.Len(address) > MaxText {
		return false
	}
	if strings.ContainsFunc(address, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
		return false
	}
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// describe says what was sent, and how many there were beyond those that are
// relayed: "📷×3 🎤 +2". Pictures need no language, so that one text does for
// everybody.
func describe(files []file, more int) string {
	var kinds []string
	count := make(map[string]int)
	for _, f := range files {
		if count[f.sign] == 0 {
			kinds = append(kinds, f.sign)
		}
		count[f.sign]++
	}
	for i, sign := range kinds {
		if n := count[sign]; n > 1 {
			kinds[i] = sign + "×" + strconv.Itoa(n)
		}
	}
	if more > 0 {
		kinds = append(kinds, "+"+strconv.Itoa(more))
	}
	return strings.Join(kinds, " ")
}
