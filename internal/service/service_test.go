package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	s := struct{ Token Secret }{"geheim"}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q", s, s, s, s.Token, s.Token)
	for _, format := range []LogFormat{LogText, LogJSON} {
		log, _ := NewLogger(LogSettings{Format: format}, &out)
		log.Info("x", "given", s.Token, "all", s)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	if strings.Contains(out.String(), "geheim") {
		t.Errorf("secret printed:\n%s", out.String())
	}
	if got := s.Token.Reveal(); got != "geheim" {
		t.Errorf("Reveal() = %q, want geheim", got)
	}
	if got := Secret("").String(); got != "" {
		t.Errorf(`Secret("").String() = %q, want ""`, got)
	}
}

func TestNewLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, _ := NewLogger(LogSettings{Level: slog.LevelWarn, Format: LogJSON}, &out)
	log.Info("no")
	log.Warn("yes", "a_b", 1)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "yes" || line["a_b"] != 1.0 {
		t.Errorf("log = %q (%v), want one JSON line with msg yes and a_b 1", out.String(), err)
	}
}

// Durations have a unit in both formats.
func TestLogRoundsDurations(t *testing.T) {
	t.Parallel()
	for format, find := range map[LogFormat]*regexp.Regexp{
		LogText: regexp.MustCompile(` d=(\S+)`), LogJSON: regexp.MustCompile(`"d":"([^"]+)"`),
	} {
		var out bytes.Buffer
		log, _ := NewLogger(LogSettings{Format: format}, &out)
		for _, d := range []time.Duration{116863157, 1234567890, 999, 134*time.Second + 5e8, -1234567} {
			log.Info("x", "d", d)
		}
		var got []string
		for _, m := range find.FindAllStringSubmatch(out.String(), -1) {
			got = append(got, m[1])
		}
		if diff := cmp.Diff([]string{"117ms", "1.23s", "999ns", "2m15s", "-1.23ms"}, got); diff != "" {
			t.Errorf("durations in a log of %s: -want +got\n%s", format, diff)
		}
	}
}

func TestLogStart(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := Defaults[sample]()
	s.Token, s.Nested.Count = "geheim", 3
	log, _ := NewLogger(LogSettings{}, &out)
	LogStart(t.Context(), log, s)
	if got := out.String(); !strings.Contains(got, "msg=starting version=") || !strings.HasSuffix(got, " TOKEN=*** COUNT=3\n") {
		t.Errorf("LogStart logs %q, want the version, TOKEN without its value, and COUNT", got)
	}
}

// TestLogStartNamesMisspelt: a variable that is nearly a setting's name is warned of,
// and no other.
func TestLogStartNamesMisspelt(t *testing.T) {
	for _, name := range []string{"LOG_LEVL", "LOGLEVEL", "LOG_FORMATS", "LOG_LEVEL", "LOG_FILE", "NAMES", "HOME"} {
		t.Setenv(name, "x")
	}
	var out bytes.Buffer
	LogStart(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), sample{})
	var got []string
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "level=WARN") {
			_, rest, _ := strings.Cut(strings.TrimSpace(line), "variable=")
			got = append(got, rest)
		}
	}
	slices.Sort(got)
	want := []string{"LOGLEVEL setting=LOG_LEVEL", "LOG_FORMATS setting=LOG_FORMAT", "LOG_LEVL setting=LOG_LEVEL"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings: -want +got\n%s", diff)
	}
}

func TestMainExitCodes(t *testing.T) { // not parallel: it installs signal handlers
	rows := []struct {
		err  error
		want int
		text string
	}{
		{nil, 0, ""},
		{ErrPrinted, 0, ""},
		{fmt.Errorf("load: %w", &SettingsError{Faults: []error{errors.New("A: b")}}), 2, "load: settings: A: b\n"},
		{errors.Join(errors.New("one"), errors.New("two")), 1, "one; two\n"},
		{Exit(3), 3, ""},
		{errors.Join(errors.New("one"), Exit(3)), 1, "one; exit code 3\n"},
	}
	for _, row := range rows {
		var out bytes.Buffer
		got := Main(&out, func(context.Context) error { return row.err })
		if got != row.want || out.String() != row.text {
			t.Errorf("Main(%v) = %d with %q, want %d with %q", row.err, got, out.String(), row.want, row.text)
		}
	}
}

func TestSignalEndsContext(t *testing.T) { // not parallel: the signal is the process's
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP} {
		ctx, stop := SignalContext(t.Context())
		p, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(sig); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Errorf("context lives 10 s after %v", sig)
		}
		stop()
	}
}

// TestSecondSignal: a signal that is sent twice at once is one.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals, done := make(chan os.Signal), make(chan struct{})
		go func() {
			awaitSecond(t.Context(), signals)
			close(done)
		}()
		time.Sleep(time.Hour)
		signals <- os.Interrupt
		signals <- os.Interrupt
		time.Sleep(sameSignal - 1)
		signals <- os.Interrupt
		synctest.Wait()
		select {
		case <-done:
			t.Error("three signals within 0.3 s count as two, want one")
		default:
		}
		time.Sleep(time.Nanosecond)
		signals <- os.Interrupt
		<-done
	})
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestRunStopsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var order []string
		actor := func(name string, takes time.Duration) Actor {
			return Actor{Name: name, Run: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(takes)
				order = append(order, name) // no lock: the order is the point, and the race detector judges it
				return nil
			}}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := Run(ctx, discard(), actor("intake", 3*time.Second), actor("work", 2*time.Second), actor("admin", 0))
		if err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if diff := cmp.Diff([]string{"intake", "work", "admin"}, order); diff != "" {
			t.Errorf("order: -want +got\n%s", diff)
		}
		if got := time.Since(start); got != 65*time.Second {
			t.Errorf("Run took %v, want 65s: the actors stop one after another", got)
		}
	})
}

func TestRunEndsWithTheFirstActor(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	rows := []struct {
		name  string
		first error
		want  string
	}{
		{"error", boom, "b: boom\nc: late"},
		{"nil", nil, "c: late"},
	}
	for _, row := range rows {
		synctest.Test(t, func(t *testing.T) {
			wait := func(err error) func(context.Context) error {
				return func(ctx context.Context) error { <-ctx.Done(); return err }
			}
			err := Run(t.Context(), discard(),
				Actor{"a", wait(nil)},
				Actor{"b", func(context.Context) error { time.Sleep(time.Second); return row.first }},
				Actor{"c", wait(errors.New("late"))},
			)
			if err == nil || err.Error() != row.want {
				t.Errorf("%s: Run = %v, want %s", row.name, err, row.want)
			}
			if row.first != nil && !errors.Is(err, boom) {
				t.Errorf("%s: Run's error does not wrap the actor's", row.name)
			}
		})
	}
	if err := Run(t.Context(), discard()); err != nil {
		t.Errorf("Run of no actors = %v, want nil", err)
	}
}
