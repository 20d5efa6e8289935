package rabbit

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A failure that repeats is logged once a minute, another one at once.
func TestRepeatedLossIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &link{kind: "publish", cfg: Config{Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))}}
	begin := time.Unix(1000, 0)
	var last loss
	lines := func() int { return strings.Count(out.String(), "\n") }
	for _, row := range []struct {
		after time.Duration
		text  string
		want  int
	}{
		{0, "refused", 1},
		{5 * time.Second, "refused", 1},
		{59 * time.Second, "refused", 1},
		{60 * time.Second, "refused", 2},
		{61 * time.Second, "reset", 3},
		{62 * time.Second, "refused", 4},
	} {
		last = l.logLoss(last, loss{url: "amqp://h", text: row.text, at: begin.Add(row.after)}, errors.New(row.text), time.Second)
		if got := lines(); got != row.want {
			t.Errorf("lines after %q at %v = %d, want %d", row.text, row.after, got, row.want)
		}
	}
}
