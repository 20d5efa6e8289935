package sender

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The bounds of the numbers that are read from headers: a usage in percent, and a day.
const (
	maxUsage   = 1000
	maxMinutes = 24 * 60
	maxPause   = maxMinutes * time.Minute
)

// readHints adds to a result what an answer's headers say about quotas:
//
//   - X-Business-Use-Case-Usage has lists of quotas by the id of a page, an account or the
//     like. Only those of the page that was called count, and only for the types of messages.
//     Reading posts or advertisements has quotas of its own.
//   - X-App-Usage is the app's. It names no page, and counts for none.
//   - Retry-After is about what the call was refused for.
//
// The time to regain access is in minutes, and about the page: a throttle of the app is
// none of it.
func (r *Result) readHints(h http.Header, page string, now time.Time) {
	percent, minutes := pageQuota(h.Get("X-Business-Use-Case-Usage"), page)
	r.Usage, r.AppUsage = percent, numberAt(h.Get("X-App-Usage"), `"call_count":`, maxUsage)
	switch r.Outcome { //nolint:exhaustive // the others are no throttles
	case AppThrottled:
		r.RetryAfter = retryAfter(h, now)
	case PageThrottled:
		r.RetryAfter = max(retryAfter(h, now), time.Duration(minutes)*time.Minute)
	}
}

// retryAfter returns the pause that the header Retry-After asks for, in seconds or as a
// date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	seconds, err := strconv.Atoi(value)
	if at, dateErr := http.ParseTime(value); err != nil && dateErr == nil {
		seconds = int(math.Ceil(at.Sub(now).Seconds()))
	}
	return time.Duration(max(0, min(seconds, int(maxPause/time.Second)))) * time.Second
}

// pageQuota returns the usage of the fullest quota of a page's messages, in percent, and the
// longest time until the page may send again, in minutes. 0: the header does not say. It
// comes with every answer and is one flat list for each id, so it is not decoded.
func pageQuota(header, page string) (percent, minutes int) {
	list := listOf(header, page)
	for list != "" {
		var quota string
		quota, list, _ = strings.Cut(list, "}")
		if isOfMessages(quota) {
			percent = max(percent, numberAt(quota, `"call_count":`, maxUsage))
			minutes = max(minutes, numberAt(quota, `"estimated_time_to_regain_access":`, maxMinutes))
		}
	}
	return percent, minutes
}

// listOf returns the text between the brackets of an id's list, empty if there is none.
func listOf(header, id string) string {
	for rest, found := header, true; found; {
		if _, rest, found = strings.Cut(rest, `"`+id+`"`); !found {
			break
		}
		after, isKey := strings.CutPrefix(strings.TrimLeft(rest, " "), ":")
		after, isList := strings.CutPrefix(strings.TrimLeft(after, " "), "[")
		if list, _, closed := strings.Cut(after, "]"); isKey && isList && closed {
			return list
		}
	}
	return ""
}

// isOfMessages reports whether a quota is of a type that sending counts for. An Instagram
// account may have either.
func isOfMessages(quota string) bool {
	_, kind, _ := strings.Cut(quota, `"type":`)
	kind = strings.TrimLeft(kind, " ")
	return strings.HasPrefix(kind, `"messenger"`) || strings.HasPrefix(kind, `"instagram"`)
}

// numberAt returns the number behind a name, at most most. 0: there is none.
func numberAt(text, name string, most int) (n int) {
	_, rest, _ := strings.Cut(text, name)
	for rest = strings.TrimLeft(rest, " "); rest != "" && rest[0] >= '0' && rest[0] <= '9' && n < most; rest = rest[1:] {
		n = 10*n + int(rest[0]-'0')
	}
	return min(n, most)
}
