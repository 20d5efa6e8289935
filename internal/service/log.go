package service

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"
)

var levelType = reflect.TypeFor[slog.Level]()

// LogFormat is the format of log lines.
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

// Describe returns the forms of a LogFormat.
func (LogFormat) Describe() string { return "text or json" }

// LogSettings are the level and the format of the log.
type LogSettings struct {
	Level  slog.Level `env:"LOG_LEVEL" envDefault:"info" doc:"Least level that is logged (debug has a line for each message)."`
	Format LogFormat  `env:"LOG_FORMAT" envDefault:"text" doc:"Form of the log lines."`
}

// NewLogger returns a logger that writes to w, and its level. Durations are rounded to
// three digits and have a unit, in JSON too.
func NewLogger(s LogSettings, w io.Writer) (*slog.Logger, *LogLevel) {
	level := &LogLevel{base: s.Level}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(roundDuration(a.Value.Duration()).String())
		}
		return a
	}}
	if s.Format == LogJSON {
		return slog.New(slog.NewJSONHandler(w, opts)), level
	}
	return slog.New(slog.NewTextHandler(w, opts)), level
}

// roundDuration returns d with three digits.
func roundDuration(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for most := d.Abs(); most >= 1000*unit; {
		unit *= 10
	}
	if d.Abs() >= 100*time.Second { // 2m14s has as many as a reader wants
		unit = time.Second
	}
	return d.Round(unit)
}

// LogStart logs which program begins, from which build, and with which settings.
// Settings with their default are left out. A variable that is nearly a setting's name is
// warned of, because the setting has its default then.
func LogStart[T any](ctx context.Context, log *slog.Logger, settings T) {
	version, revision := BuildVersion()
	attrs := []slog.Attr{slog.String("version", version), slog.String("revision", revision), slog.String("go", runtime.Version())}
	given, defaults := reflect.ValueOf(settings), reflect.ValueOf(Defaults[T]())
	for _, l := range leaves(given.Type(), nil) {
		value := given.FieldByIndex(l.index)
		if !reflect.DeepEqual(value.Interface(), defaults.FieldByIndex(l.index).Interface()) {
			attrs = append(attrs, slog.Any(l.Name, value.Interface()))
		}
	}
	log.LogAttrs(ctx, slog.LevelInfo, "starting", attrs...)
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if setting := nearly(name, leaves(given.Type(), nil)); setting != "" {
			log.LogAttrs(ctx, slog.LevelWarn, "a variable is no setting; is another one meant?", slog.String("variable", name), slog.String("setting", setting))
		}
	}
}

// nearly returns the setting that a variable's name has at most two letters more, less
// or other than; "" if it is one, or resembles none.
func nearly(name string, all []leaf) (setting string) {
	const most, shortest = 2, 6
	for _, l := range all {
		switch n := distance(name, l.Name); {
		case n == 0:
			return ""
		case n <= most && len(l.Name) >= shortest:
			setting = l.Name
		}
	}
	return setting
}

// distance is the number of letters to insert, delete or replace between two names
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for k := range len(b) {
			cost := left
			if a[i] != b[k] {
				cost++
			}
			left = row[k+1]
			row[k+1] = min(cost, left+1, row[k]+1)
		}
	}
	return row[len(b)]
}
