package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"chatclub/internal/audit"
)

const (
	// maxLevelTime bounds how long a level may hold that goes back by itself.
	maxLevelTime = 24 * time.Hour
	// maxLevelBody is more than any sensible request has.
	maxLevelBody = 4 << 10
)

// LogLevel is the least level that a logger logs. It can be changed while the logger is
// in use, for a time or until it is changed again. The zero value is info. Safe for
// concurrent use.
type LogLevel struct {
	base slog.Level           // of the settings
	set  atomic.Pointer[held] // in place of base; nil: nothing
}

// held is a level, and how long it holds.
type held struct {
	level slog.Level
	until time.Time // zero: until another one is set
}

// Level implements slog.Leveler. It needs no timer to go back: each call sees whether
// the time is over.
func (l *LogLevel) Level() slog.Level { return l.inForce().level }

// inForce returns the level in force now.
func (l *LogLevel) inForce() held {
	h := l.set.Load()
	if h == nil || !h.until.IsZero() && time.Now().After(h.until) {
		return held{level: l.base}
	}
	return *h
}

// Set changes the level, for a time after which that of the settings holds again; 0:
// until it is set again.
func (l *LogLevel) Set(level slog.Level, hold time.Duration) {
	h := &held{level: level}
	if hold > 0 {
		h.until = time.Now().Add(hold)
	}
	l.set.Store(h)
}

// levelState is the JSON of an answer.
type levelState struct {
	Level string     `json:"level"`
	Until *time.Time `json:"until,omitempty"` // when the settings' level holds again
}

func (l *LogLevel) state() levelState {
	h := l.inForce()
	s := levelState{Level: strings.ToLower(h.level.String())}
	if !h.until.IsZero() {
		s.Until = &h.until
	}
	return s
}

// handler serves GET, which tells the level, and PUT, which changes it and tells it
// then: {"level":"debug","for":"10m"}, of which "for" may be missing.
func (l *LogLevel) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			level, hold, err := parseLevel(http.MaxBytesReader(w, r.Body, maxLevelBody))
			if err != nil {
				answerJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
				return
			}
			audit.Note(r.Context(), slog.Any("log_level", level), slog.Duration("for", hold))
			l.Set(level, hold)
		}
		answerJSON(w, http.StatusOK, l.state())
	})
}

// parseLevel reads the body of a PUT. The error names the wrong field.
func parseLevel(body io.Reader) (level slog.Level, hold time.Duration, err error) {
	var in struct{ Level, For string }
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return 0, 0, fmt.Errorf("%s: must be a string", strings.ToLower(wrong.Field))
		}
		return 0, 0, errors.New(`body: must be JSON such as {"level":"debug","for":"10m"}, with no other field`)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return 0, 0, errors.New("body: there is something after the JSON value")
	}
	if err := level.UnmarshalText([]byte(in.Level)); err != nil {
		return 0, 0, fmt.Errorf("level: %.40q is not debug, info, warn or error", in.Level)
	}
	if in.For == "" {
		return level, 0, nil
	}
	if hold, err = time.ParseDuration(in.For); err != nil || hold <= 0 || hold > maxLevelTime {
		return 0, 0, fmt.Errorf("for: %.40q is not a duration such as 10m, above 0 and at most %s", in.For, short(maxLevelTime))
	}
	return level, hold, nil
}

// answerJSON answers with a value that can be encoded.
func answerJSON(w http.ResponseWriter, code int, v any) {
	beginAnswer(w, code, "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
