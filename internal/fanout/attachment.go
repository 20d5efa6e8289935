package fanout

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"chatclub/internal/message"
)

// file is an attachment as it is relayed.
type file struct {
	one, many string // what it is called
	part      message.Outbound
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
	attach := func(one, many, kind string, class message.Class) file {
		return file{one, many, message.Outbound{Class: class, Attachment: &message.Attachment{Type: kind, URL: a.URL}}}
	}
	switch a.Type {
	case "image":
		return attach("a picture", "pictures", "image", message.ClassText)
	case "sticker":
		return attach("a sticker", "stickers", "image", message.ClassText)
	case "video":
		return attach("a video", "videos", "video", message.ClassMedia)
	case "audio":
		return attach("a voice message", "voice messages", "audio", message.ClassMedia)
	case "file":
		return attach("a file", "files", "file", message.ClassText)
	default:
		return file{"a link", "links", textPart(a.URL)}
	}
}

// relayable tells whether an address may be passed on: an absolute web
// address without white space or control characters, of a length that still
// fits where it goes as text.
func relayable(address string) bool {
	if address == "" || !utf8.ValidString(address) || utf8.RuneCountInString(address) > MaxText {
		return false
	}
	if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || unprintable(r) }) {
		return false
	}
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// describe says in words what was sent.
func describe(files []file) string {
	first := files[0]
	if len(files) == 1 {
		return first.one
	}
	for _, f := range files {
		if f.many != first.many {
			return fmt.Sprintf("%d attachments", len(files))
		}
	}
	return fmt.Sprintf("%d %s", len(files), first.many)
}
