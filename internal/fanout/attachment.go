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
	sign string // an emoji for its kind, understood in every language
	part message.Outbound
}

// relay returns the attachments that can be relayed, at most maxAttachments and so
// many of a class, and how many more there are. refused reports whether one has no
// web address, and is left out.
func relay(attachments []message.Attachment, text string, most Most) (files []file, more int, refused bool) {
	attachments, refused = distinct(attachments, text)
	for _, a := range attachments {
		f := relayOne(a)
		left := &most.Text
		if f.part.Class == message.ClassMedia {
			left = &most.Media
		}
		if len(files) == maxAttachments || *left < 1 {
			more++
			continue
		}
		*left--
		files = append(files, f)
	}
	return files, more, refused
}

// Links returns the addresses of the attachments that can be relayed.
func Links(attachments []message.Attachment) (links []string) {
	attachments, _ = distinct(attachments, "")
	for _, a := range attachments[:min(len(attachments), maxAttachments)] {
		links = append(links, a.URL)
	}
	return links
}

// relayOne makes an attachment a message of its quota class. A sticker is
// relayed as a picture. The Send API has no type for some attachments, such as a
// reel or a shared link; their address is relayed as text.
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
	case "location":
		return file{"📍", textPart(a.URL)}
	default:
		return file{"🔗", textPart(a.URL)}
	}
}

// relayable reports whether link may be passed on: an absolute web address
// without white space and control characters, short enough to be sent as text.
func relayable(link string) bool {
	if link == "" || !utf8.ValidString(link) || plaintext.Len(link) > message.MaxText {
		return false
	}
	if strings.ContainsFunc(link, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
		return false
	}
	u, err := url.Parse(link)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// describe lists the attachments by kind, and how many more there are: "📷×3 🎤
// +2". Emoji need no language, so all members get the same text.
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
