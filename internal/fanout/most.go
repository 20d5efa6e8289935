package fanout

import (
	"math"
	"time"

	"chatclub/internal/message"
)

const (
	// TextTime bounds the part of its page's limit that the texts of one message take,
	// pictures included: another member's next text waits no longer than 2 s. At
	// 300/s that is five to each of 99 members.
	TextTime = 1700 * time.Millisecond
	// MediaTime is the same for audio and video. At 10/s it is one file to each of
	// 99 members, the least that makes sense.
	MediaTime = 10 * time.Second
	// leastTexts and leastMedia are the messages that each recipient gets of one event in
	// any case: a line with one file.
	leastTexts = 2
	leastMedia = 1
)

// Most is the number of messages that each recipient gets of one event at most.
type Most struct{ Text, Media int }

// MostOf returns the most that fits in TextTime and MediaTime, at least a line with one
// file. A limit of 0 bounds nothing.
func MostOf(l message.Limits, recipients int) Most {
	fit := func(limit float64, d time.Duration, least int) int {
		if limit <= 0 || recipients == 0 {
			return math.MaxInt
		}
		return max(least, int(limit*d.Seconds())/recipients)
	}
	return Most{Text: fit(l.Text, TextTime, leastTexts), Media: fit(l.Media, MediaTime, leastMedia)}
}

// Time returns how much of its page's limits the message of ev takes with so many
// recipients.
func Time(ev message.Event, text string, l message.Limits, recipients int) (texts, media time.Duration) {
	said, _ := Say(ev, "", text, MostOf(l, recipients))
	var n message.Limits
	for _, p := range said.parts {
		if p.Class == message.ClassMedia {
			n.Media += float64(recipients)
		} else {
			n.Text += float64(recipients)
		}
	}
	return take(n.Text, l.Text), take(n.Media, l.Media)
}

// LineTime returns how much of its page's limit one text to one recipient takes.
func LineTime(l message.Limits) time.Duration { return take(1, l.Text) }

// LeastTime returns how much of its page's limit of texts one message with so many
// recipients may take in any case.
func LeastTime(l message.Limits, recipients int) time.Duration {
	return take(leastTexts*float64(recipients), l.Text)
}

// take returns how much of a limit so many calls take, nothing of none.
func take(n, limit float64) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(n / limit * float64(time.Second))
}
