package submit

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"chatclub/internal/message"
)

// read returns the messages of a body. It fills in the fields that a message may leave out.
// Pages that knows does not know are refused; nil: none are.
func read(raw []byte, key string, now time.Time, knows func(page string) bool) ([]message.Outbound, *refusal) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '[' {
		o, no := readOne(raw, key, now, knows)
		return []message.Outbound{o}, no
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, refused(err)
	}
	switch {
	case len(parts) == 0 || len(parts) > maxBatch:
		return nil, wrong("body", "has %d messages, want 1 to %d", len(parts), maxBatch)
	case key != "":
		return nil, wrong("Idempotency-Key", "is for one message; each of a list has its id")
	}
	list := make([]message.Outbound, len(parts))
	type name struct{ page, to, id string }
	first := make(map[name]int, len(parts))
	for i, part := range parts {
		var no *refusal
		if list[i], no = readOne(part, "", now, knows); no != nil {
			no.field = fmt.Sprintf("[%d].%s", i, no.field)
			return nil, no
		}
		n := name{list[i].Page, list[i].To, list[i].ID}
		if k, twice := first[n]; twice {
			return nil, wrong(fmt.Sprintf("[%d].id", i), "is that of [%d] to the same person, too", k)
		}
		first[n] = i
	}
	return list, nil
}

// readOne returns one message.
func readOne(raw []byte, key string, now time.Time, knows func(page string) bool) (message.Outbound, *refusal) {
	o, err := message.DecodeNew(raw, func(o *message.Outbound) {
		if o.ID == "" {
			o.ID = key
		}
		if o.ID == "" {
			o.ID = o.Page + "/" + rand.Text() // of the form of core's
		}
		if o.Time == 0 {
			o.Time = now.UnixMilli()
		}
	})
	if err == nil {
		err = o.Check(now)
	}
	switch {
	case message.IsReplaced(key):
		return o, wrong("Idempotency-Key", "must be UTF-8 without U+FFFD: another key could become the same")
	case err != nil:
		return o, refused(err)
	case key != "" && o.ID != key:
		return o, wrong("Idempotency-Key", "is not the message's id")
	case knows != nil && !knows(o.Page):
		return o, wrong("page", "%s is not in the pages file", o.Page)
	}
	return o, nil
}

// refused returns an error of a message, or of a list, with the field's name.
func refused(err error) *refusal {
	if field, ok := errors.AsType[*message.FieldError](message.ExplainJSON(err)); ok {
		return wrong(field.Field, "%s", field.Problem)
	}
	return wrong("body", "%v", err)
}
