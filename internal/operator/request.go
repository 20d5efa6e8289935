package operator

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

const (
	// defaultLimit is the length of a list if the request names none, maxLimit
	// the longest.
	defaultLimit = 100
	maxLimit     = 1000
	// maxID bounds ids, and the reason of a pause, as package rooms does.
	maxID = 512
)

// fieldError says what is wrong with a field of a request.
type fieldError struct {
	status         int // of the answer
	field, problem string
}

func (e *fieldError) Error() string { return e.field + ": " + e.problem }

func badField(field, format string, args ...any) error {
	return &fieldError{http.StatusBadRequest, field, fmt.Sprintf(format, args...)}
}

// unknown names the field that the database does not know, if that is the error.
func unknown(err error, field, problem string) error {
	if errors.Is(err, rooms.ErrUnknown) {
		return &fieldError{http.StatusNotFound, field, problem}
	}
	return err
}

// listOf reads of which page a list is, and its length.
func listOf(r *http.Request) (page string, limit int, err error) {
	if page = r.URL.Query().Get("page"); page == "" {
		return "", 0, badField("page", "must be given")
	}
	limit, err = limitOf(r)
	return page, limit, err
}

// limitOf reads the length of a list.
func limitOf(r *http.Request) (int, error) { return number(r, "limit", defaultLimit, 1, maxLimit) }

// number reads a number from least to most, missing if there is none.
func number(r *http.Request, field string, missing, least, most int) (int, error) {
	text := r.URL.Query().Get(field)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badField(field, "must be a number from %d to %d", least, most)
	}
	return n, nil
}

// span reads a duration above zero.
func span(field, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, badField(field, "%.40q must be a time such as 30m or 24h", text)
	}
	return d, nil
}

// checkIDs refuses an id in the address that the databases would refuse.
func checkIDs(r *http.Request) error {
	query := r.URL.Query()
	for _, id := range []struct{ field, text string }{
		{"page", query.Get("page")},
		{"after", query.Get("after")},
		{"mid", query.Get("mid")},
		{"psid", query.Get("psid")},
		{"page", r.PathValue("page")},
		{"psid", r.PathValue("psid")},
		{"broadcast", r.PathValue("id")},
	} {
		if err := checkText(id.field, id.text, maxID); err != nil {
			return err
		}
	}
	return nil
}

// checkText refuses an id of more than most bytes, with control characters, that is not
// UTF-8, or in which a character was replaced because it was not.
func checkText(field, text string, most int) error {
	if len(text) > most || message.IsReplaced(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return badField(field, "must have at most %d bytes of UTF-8 without control characters or U+FFFD", most)
	}
	return nil
}
