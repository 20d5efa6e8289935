package fakeapi_test

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
)

func TestLatency(t *testing.T) {
	t.Parallel()
	// took sends n calls with pauses and returns how long each took.
	took := func(t *testing.T, latency string, n int, pause time.Duration) []time.Duration {
		t.Helper()
		a := fakeapitest.New(t, fakeapi.Config{Seed: 5, Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Latency = fakeapitest.Latency(t, latency) })})
		list := make([]time.Duration, 0, n)
		results := make(chan time.Duration, n)
		for range n {
			go func() {
				begin := time.Now()
				a.Send("42", "")
				results <- time.Since(begin)
			}()
			time.Sleep(pause)
		}
		for range n {
			list = append(list, <-results)
		}
		slices.Sort(list)
		return list
	}
	synctest.Test(t, func(t *testing.T) {
		if got := took(t, "none", 1, 0)[0]; got != 0 {
			t.Errorf("none took %s, want 0", got)
		}
		if got := took(t, "fixed:40ms", 1, 0)[0]; got != 40*time.Millisecond {
			t.Errorf("fixed:40ms took %s, want 40ms", got)
		}
		list := took(t, "lognormal:40ms,150ms", 4000, time.Millisecond)
		for _, q := range []struct {
			share float64
			want  time.Duration
		}{{.5, 40 * time.Millisecond}, {.99, 150 * time.Millisecond}} {
			got := list[int(q.share*float64(len(list)))]
			if math.Abs(float64(got)/float64(q.want)-1) > .1 {
				t.Errorf("lognormal:40ms,150ms at %g = %s, want %s ± 10 %%", q.share, got, q.want)
			}
		}
		// The published experiment: 75/s took 260 ms, half of it 200 ms.
		for rate, want := range map[int]float64{20: 200, 75: 260, 150: 380} { // ms
			list := took(t, "load:37.5,200ms", 10*rate, time.Second/time.Duration(rate))
			got := list[len(list)/2]
			if math.Abs(float64(got)/(want*float64(time.Millisecond))-1) > .03 {
				t.Errorf("load:37.5,200ms at %d/s = %s, want %g ms ± 3 %%", rate, got, want)
			}
		}
	})
}

func TestParseLatency(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"none", "fixed:40ms", "lognormal:40ms,150ms", "load:75,260ms,0.5"} {
		l, err := fakeapi.ParseLatency(s)
		if err != nil || l.String() != s {
			t.Errorf("ParseLatency(%q) = %s, %v, want the same", s, l, err)
		}
	}
	for _, s := range []string{
		"", "slow", "none:1", "fixed", "fixed:x", "fixed:-1s", "fixed:1s,2s", "lognormal:40ms", "lognormal:150ms,40ms",
		"lognormal:0s,1s", "load:75", "load:0,1s", "load:-1,1s", "load:NaN,1s", "load:75,1s,-1", "load:Inf,1s", "fixed:99h",
	} {
		if l, err := fakeapi.ParseLatency(s); err == nil {
			t.Errorf("ParseLatency(%q) = %s, want an error", s, l)
		}
	}
}

// TestDefaultLatency checks that a platform without settings is as slow as the
// real one.
func TestDefaultLatency(t *testing.T) {
	t.Parallel()
	if got, want := fakeapi.DefaultSettings().Latency.String(), "lognormal:700ms,1.9s"; got != want {
		t.Errorf("DefaultSettings().Latency = %s, want %s", got, want)
	}
}
