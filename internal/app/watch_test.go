package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/service"
)

// TestWorkThatStandsStillEndsTheProgram, although its parts do not end: what was held goes
// to others with the process's connections.
func TestWorkThatStandsStillEndsTheProgram(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		still []time.Duration // by second, again and again
		want  error
	}{
		{"it works", []time.Duration{0, time.Second, 2 * time.Second}, nil},
		{"slowly", []time.Duration{14 * time.Second}, nil},
		{"after a pause", []time.Duration{20 * time.Second, 20 * time.Second, 20 * time.Second, 20 * time.Second, 0}, nil},
		{"it stands still", []time.Duration{15 * time.Second, 16 * time.Second, 17 * time.Second, 18 * time.Second, 19 * time.Second}, errStill},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			looks, flushed, release := 0, 0, make(chan struct{})
			p := &Program{
				log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
				still: func() time.Duration {
					looks++
					return row.still[looks%len(row.still)]
				},
				flush: func() error { flushed++; return nil },
				actors: []service.Actor{{Name: "stuck", Run: func(context.Context) error {
					<-release // whatever it is asked
					return nil
				}}},
			}
			time.AfterFunc(time.Minute, func() { close(release) })
			began := time.Now()
			if err := p.Run(t.Context()); !errors.Is(err, row.want) {
				t.Errorf("%s: Run() = %v, want %v", row.name, err, row.want)
			}
			if stood := row.want != nil; stood != (time.Since(began) < time.Minute) || stood != (flushed == 1) ||
				stood != strings.Contains(log.String(), "TestWorkThatStandsStill") { // whose goroutine is among the stacks
				t.Errorf("%s: ended after %v, flushed %d times, with the log %.300q", row.name, time.Since(began), flushed, log.String())
			}
			<-release
			synctest.Wait()
		})
	}
}
