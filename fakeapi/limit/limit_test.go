package limit_test

import (
	"strings"
	"testing"
	"time"

	"chatclub/fakeapi/limit"
)

// at is a time d after a moment at which every window of a second begins.
func at(d time.Duration) time.Time { return time.Unix(1_700_000_000, 0).Add(d) }

func mustNew(t testing.TB, c limit.Config) limit.Limiter {
	t.Helper()
	l, err := limit.New(c)
	if err != nil {
		t.Fatalf("New(%+v) = %v, want a limiter", c, err)
	}
	return l
}

// TestSteps asks each algorithm with limit 4 per second at exact times.
func TestSteps(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	type step struct {
		at   time.Duration
		want string // one letter a call at that time: y admitted, n refused
	}
	tests := map[string]struct {
		config limit.Config
		steps  []step
	}{
		"fixed window": {
			limit.Config{Algorithm: limit.FixedWindow, Limit: 4},
			[]step{{0, "yyyyn"}, {999 * ms, "n"}, {1000 * ms, "yyyyn"}, {5 * time.Second, "yyyyn"}},
		},
		"fixed window lets a double burst over the boundary": {
			limit.Config{Algorithm: limit.FixedWindow, Limit: 4},
			[]step{{999 * ms, "yyyyn"}, {1000 * ms, "yyyyn"}},
		},
		"fixed window with phase": {
			limit.Config{Algorithm: limit.FixedWindow, Limit: 4, Phase: 300 * ms},
			[]step{{0, "yyyyn"}, {299 * ms, "n"}, {300 * ms, "yyyyn"}, {1299 * ms, "n"}, {1300 * ms, "y"}},
		},
		"fixed window does not go back": {
			limit.Config{Algorithm: limit.FixedWindow, Limit: 4},
			[]step{{1000 * ms, "yyyy"}, {900 * ms, "n"}, {2000 * ms, "y"}},
		},
		// In the second window the estimate is 4 × (1 − e) + present.
		"sliding window": {
			limit.Config{Algorithm: limit.SlidingWindow, Limit: 4},
			[]step{
				{500 * ms, "yyyyn"},
				{1000 * ms, "n"},
				{1249 * ms, "n"},
				{1250 * ms, "yn"},
				{1500 * ms, "yn"},
				{1750 * ms, "yn"},
				{1999 * ms, "n"}, // 4×.001+3+1 > 4
				{2000 * ms, "yn"},
			},
		},
		"sliding window, refused calls count": {
			limit.Config{Algorithm: limit.SlidingWindow, Limit: 4, CountRefused: true},
			[]step{{0, "yyyynnnn"}, {1000 * ms, "n"}, {1624 * ms, "n"}, {1900 * ms, "y"}},
		},
		"sliding log": {
			limit.Config{Algorithm: limit.SlidingLog, Limit: 4},
			[]step{{0, "yy"}, {500 * ms, "yyn"}, {999 * ms, "n"}, {1000 * ms, "yyn"}, {1499 * ms, "n"}, {1500 * ms, "yyn"}},
		},
		"sliding log, refused calls count": {
			limit.Config{Algorithm: limit.SlidingLog, Limit: 4, CountRefused: true},
			[]step{{0, "yyyy"}, {500 * ms, "nnnn"}, {1000 * ms, "n"}, {1499 * ms, "n"}, {1500 * ms, "yynn"}},
		},
		"token bucket": {
			limit.Config{Algorithm: limit.TokenBucket, Limit: 4},
			[]step{{0, "yyyyn"}, {249 * ms, "n"}, {250 * ms, "yn"}, {750 * ms, "yyn"}, {9 * time.Second, "yyyyn"}},
		},
		"token bucket with burst": {
			limit.Config{Algorithm: limit.TokenBucket, Limit: 4, Burst: 2},
			[]step{{0, "yyn"}, {250 * ms, "yn"}, {9 * time.Second, "yyn"}},
		},
		"token bucket, refused calls count": {
			limit.Config{Algorithm: limit.TokenBucket, Limit: 4, Burst: 2, CountRefused: true},
			[]step{{0, "yynnnn"}, {500 * ms, "n"}, {999 * ms, "n"}, {1249 * ms, "n"}, {3 * time.Second, "y"}},
		},
		"leaky bucket": {
			limit.Config{Algorithm: limit.LeakyBucket, Limit: 4},
			[]step{{0, "yn"}, {249 * ms, "n"}, {250 * ms, "yn"}, {9 * time.Second, "yn"}},
		},
		"leaky bucket with burst": {
			limit.Config{Algorithm: limit.LeakyBucket, Limit: 4, Burst: 3},
			[]step{{0, "yyyn"}, {250 * ms, "yn"}, {9 * time.Second, "yyyn"}},
		},
		"leaky bucket, refused calls count": {
			limit.Config{Algorithm: limit.LeakyBucket, Limit: 4, CountRefused: true},
			[]step{{0, "ynnn"}, {250 * ms, "n"}, {500 * ms, "n"}, {1000 * ms, "y"}},
		},
		"window of a day": {
			limit.Config{Algorithm: limit.SlidingWindow, Limit: 2, Window: 24 * time.Hour, Phase: at(0).Sub(time.Unix(0, 0)) % (24 * time.Hour)},
			[]step{{0, "yyn"}, {24*time.Hour - ms, "n"}, {36*time.Hour - ms, "n"}, {36 * time.Hour, "yn"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := mustNew(t, tc.config)
			for _, s := range tc.steps {
				var got strings.Builder
				for range s.want {
					if l.Allow(at(s.at)) {
						got.WriteByte('y')
					} else {
						got.WriteByte('n')
					}
				}
				if got.String() != s.want {
					t.Errorf("at %s: Allow = %s, want %s", s.at, got.String(), s.want)
				}
			}
		})
	}
}

func TestSetLimit(t *testing.T) {
	t.Parallel()
	for _, a := range limit.Algorithms() {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			l := mustNew(t, limit.Config{Algorithm: a, Limit: 100})
			count := func(from time.Duration) int {
				n := 0
				for i := range 3000 { // 3 s in steps of 1 ms
					if l.Allow(at(from + time.Duration(i)*time.Millisecond)) {
						n++
					}
				}
				return n
			}
			// 3 s at the limit, and at most one burst more or less.
			if n := count(0); n < 290 || n > 400 {
				t.Errorf("admitted with limit 100 in 3 s = %d, want 290 to 400", n)
			}
			l.SetLimit(at(3*time.Second), 10)
			if n := count(3 * time.Second); n < 20 || n > 40 {
				t.Errorf("admitted with limit 10 in 3 s = %d, want 20 to 40", n)
			}
			l.SetLimit(at(6*time.Second), 200)
			if n := count(6 * time.Second); n < 560 || n > 640 {
				t.Errorf("admitted with limit 200 in 3 s = %d, want 560 to 640", n)
			}
		})
	}
}

// TestSetLimitForgetsNothing: a limit that is lowered and raised again does not
// give back the calls that were used up.
func TestSetLimitForgetsNothing(t *testing.T) {
	t.Parallel()
	for _, a := range limit.Algorithms() {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			l := mustNew(t, limit.Config{Algorithm: a, Limit: 10, Burst: 10})
			for range 10 {
				l.Allow(at(0))
			}
			l.SetLimit(at(0), 2)
			l.SetLimit(at(0), 10)
			if l.Allow(at(0)) {
				t.Error("Allow after 10 of 10 and a limit of 2 in between = true, want false")
			}
			if got := l.Usage(at(0)); got != 1 {
				t.Errorf("Usage = %g, want 1", got)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, a := range limit.Algorithms() {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			l := mustNew(t, limit.Config{Algorithm: a, Limit: 10, Burst: 10})
			for i := range 5 {
				if got, want := l.Usage(at(0)), float64(i)/10; got != want {
					t.Errorf("Usage after %d of 10 = %g, want %g", i, got, want)
				}
				l.Allow(at(0))
			}
		})
	}
}

func TestNewNamesFaults(t *testing.T) {
	t.Parallel()
	_, err := limit.New(limit.Config{Algorithm: "guess", Limit: 0, Window: time.Microsecond, Burst: -1})
	for _, want := range []string{`algorithm "guess"`, "limit 0", "window 1µs", "burst -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(all wrong) = %v, want it to name %s", err, want)
		}
	}
}
