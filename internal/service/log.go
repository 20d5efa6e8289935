package service

import (
	"fmt"
	"io"
	"log/slog"
	"reflect"
)

var levelType = reflect.TypeFor[slog.Level]()

// LogFormat is how log lines look.
type LogFormat string

// The log formats.
const (
	LogText LogFormat = "text" // key=value pairs, for people
	LogJSON LogFormat = "json" // one object a line, for log collectors
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *LogFormat) UnmarshalText(b []byte) error {
	switch got := LogFormat(b); got {
	case LogText, LogJSON:
		*f = got
		return nil
	default:
		return fmt.Errorf("unknown log format %.40q", got)
	}
}

// Describe says what a LogFormat looks like.
func (LogFormat) Describe() string { return "text or json" }

// LogSettings says what is logged and how.
type LogSettings struct {
	Level  slog.Level `env:"LOG_LEVEL" envDefault:"info" doc:"Least level that is logged (debug has a line for each message)."`
	Format LogFormat  `env:"LOG_FORMAT" envDefault:"text" doc:"Form of the log lines."`
}

// NewLogger returns a logger that writes to w.
func NewLogger(s LogSettings, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: s.Level}
	switch s.Format {
	case LogJSON:
		return slog.New(slog.NewJSONHandler(w, opts))
	case LogText:
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts)) // the zero value
}
