package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/backoff"
)

func TestSleep(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		d     time.Duration
		ends  time.Duration // of the context; -1: before
		want  bool
		after time.Duration
	}{
		{"the time passes", time.Second, time.Minute, true, time.Second},
		{"the context ends first", time.Minute, time.Second, false, time.Second},
		{"the context has ended", time.Minute, -1, false, 0},
		{"nothing to wait for", 0, time.Minute, true, 0},
		{"less than nothing", -time.Second, time.Minute, true, 0},
		{"nothing to wait for, and the context has ended", 0, -1, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), row.ends)
				defer cancel()
				begin := time.Now()
				if got := backoff.Sleep(ctx, row.d); got != row.want || time.Since(begin) != row.after {
					t.Errorf("Sleep = %v after %v, want %v after %v", got, time.Since(begin), row.want, row.after)
				}
			})
		})
	}
}
