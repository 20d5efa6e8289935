package aimd_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/aimd"
)

// The public experiment: 75 requests/s are offered to a store that answers them
// in 260 ms, and half of them in 200 ms; the target is 200 ms at the 95th
// percentile. fakeapi's latency is a function of the rate of the last second
// and has no spread of its own, so the percentile is one over time: of the
// calls, 95 % were made while the rate was low enough.
const (
	offered = 75
	target  = 200 * time.Millisecond
	most    = 37.5 // calls/s at which both curves below reach the target
)

// Two curves through the two published points.
const (
	// No rate is faster than the target.
	flat = "load:37.5,200ms"
	// The straight line of the points, 140 ms + 1.6 ms for each call/s, down to
	// 1 call/s. This one is faster than the target below 37.5 calls/s.
	line = "load:1,141.6ms,0.0112994"
)

// experiment is calls offered at a pace to dispatchers that share a queue, each
// with a limiter of its own, in virtual time.
type experiment struct {
	latency  string // of fakeapi
	offered  int    // calls/s
	limiter  aimd.Config
	joins    []time.Duration // when each dispatcher starts
	from, to time.Duration   // of the calls that are measured
}

type figures struct {
	rate     float64 // calls/s that were made
	p50, p95 time.Duration
	waiting  int // in the queue at the end
}

func (f figures) String() string {
	return fmt.Sprintf("%.1f calls/s, p50 %s, p95 %s, %d left in the queue", f.rate,
		f.p50.Round(100*time.Microsecond), f.p95.Round(100*time.Microsecond), f.waiting)
}

func (e experiment) run(t *testing.T) (f figures) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		settings := fakeapi.DefaultSettings()
		settings.Text.PerSecond = 1_000_000 // latency alone
		if err := settings.Latency.UnmarshalText([]byte(e.latency)); err != nil {
			t.Fatal(err)
		}
		api, err := fakeapi.New(fakeapi.Config{Settings: &settings})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), e.to)
		defer cancel()
		begin := time.Now()
		queue := make(chan struct{}, int(e.to.Seconds())*e.offered+1)
		ended := make([][]result, len(e.joins))
		var all sync.WaitGroup
		for i, join := range e.joins {
			limiter := newLimiter(t, e.limiter)
			all.Go(func() {
				time.Sleep(join)
				var err error
				if ended[i], err = dispatch(ctx, api.Transport(), limiter, queue, rand.New(rand.NewPCG(1, uint64(i)))); err != nil {
					t.Error(err)
				}
			})
		}
		tick := time.NewTicker(time.Second / time.Duration(e.offered))
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			queue <- struct{}{}
		}
		all.Wait()
		f = e.measure(t, begin, slices.Concat(ended...))
		f.waiting = len(queue)
	})
	return f
}

// measure looks at the calls that ended in the time that counts.
func (e experiment) measure(t *testing.T, begin time.Time, list []result) figures {
	t.Helper()
	list = slices.DeleteFunc(list, func(r result) bool {
		return r.at.Before(begin.Add(e.from)) || !r.at.Before(begin.Add(e.to))
	})
	if len(list) == 0 {
		t.Fatal("no call ended")
	}
	slices.SortFunc(list, func(a, b result) int { return cmp.Compare(a.latency, b.latency) })
	return figures{
		rate: float64(len(list)) / (e.to - e.from).Seconds(),
		p50:  list[len(list)/2].latency, p95: list[len(list)*95/100].latency,
	}
}

type result struct {
	at      time.Time
	latency time.Duration
	err     error
}

// dispatch is a dispatcher's loop: the one owner of its limiter. What it does
// with a message before the call takes up to 2 ms, without which the calls of a
// closed loop would stay in step for ever.
func dispatch(ctx context.Context, rt http.RoundTripper, l *aimd.Limiter, queue <-chan struct{}, random *rand.Rand) ([]result, error) {
	var ended []result
	var faults error
	done := make(chan result)
	for inFlight := 0; ctx.Err() == nil || inFlight > 0; {
		messages := queue
		if inFlight >= l.Limit() || ctx.Err() != nil {
			messages = nil
		}
		stop := ctx.Done()
		if ctx.Err() != nil {
			stop = nil
		}
		select {
		case <-stop:
		case <-messages:
			inFlight++
			work := time.Duration(random.Int64N(int64(2 * time.Millisecond)))
			go func() { done <- call(context.WithoutCancel(ctx), rt, work) }() // received below, before the return
		case r := <-done:
			l.Observe(r.at, r.latency, inFlight)
			inFlight--
			ended = append(ended, r)
			faults = cmp.Or(faults, r.err)
		}
	}
	return ended, faults
}

func call(ctx context.Context, rt http.RoundTripper, work time.Duration) result {
	time.Sleep(work)
	begin := time.Now()
	err := send(ctx, rt)
	return result{at: time.Now(), latency: time.Since(begin), err: err}
}

func send(ctx context.Context, rt http.RoundTripper) error {
	const body = `{"recipient":{"id":"42"},"messaging_type":"UPDATE","message":{"text":"hi"}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://graph.test/v23.0/1/messages", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer token-1")
	r.Header.Set("Content-Type", "application/json")
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("send = %d %s, want 200", resp.StatusCode, answer)
	}
	return errors.Join(err, resp.Body.Close())
}

// fixed is a limit that stays.
func fixed(limit int) aimd.Config { return aimd.Config{Min: 1, Max: limit, Start: 1} }

func adaptive(start int) aimd.Config {
	return aimd.Config{Min: 1, Max: 100, Start: start, Target: target}
}

// within reports whether got is want ± share.
func within[T ~int64 | ~float64](got, want T, share float64) bool {
	return max(float64(got)/float64(want), float64(want)/float64(got)) <= 1+share
}

// bestFixed is the figures of the largest fixed limit whose 95th percentile is
// not above the target: the most that the target allows.
func bestFixed(t *testing.T, latency string) (best figures) {
	t.Helper()
	for limit := 1; ; limit++ {
		f := experiment{
			latency: latency, offered: offered, limiter: fixed(limit), joins: make([]time.Duration, 1),
			from: 10 * time.Second, to: time.Minute,
		}.run(t)
		if f.p95 > target {
			t.Logf("%s, best fixed limit %d: %s", latency, limit-1, best)
			return best
		}
		best = f
	}
}

// TestPublicExperiment: without a limit to speak of all calls pass at 260 ms;
// with the limiter the percentile settles at the target, about half the load
// passes, as many as the best fixed limit lets pass, and the rest waits in
// the queue. One dispatcher or three that know nothing of each other, from the
// beginning or joining later, come to the same.
func TestPublicExperiment(t *testing.T) {
	t.Parallel()
	for _, latency := range []string{flat, line} {
		t.Run(latency, func(t *testing.T) {
			t.Parallel()
			free := experiment{
				latency: latency, offered: offered, limiter: fixed(100), joins: make([]time.Duration, 1),
				from: 10 * time.Second, to: time.Minute,
			}.run(t)
			t.Logf("no limit: %s", free)
			if !within(free.rate, offered, .01) || !within(free.p95, 260*time.Millisecond, .01) {
				t.Errorf("no limit = %s, want 75 calls/s, p95 260ms", free)
			}
			best := bestFixed(t, latency)
			var one figures
			for _, tc := range []struct {
				name  string
				start int
				joins []time.Duration
			}{
				{"one", 1, []time.Duration{0}},
				{"one, started far too high", 30, []time.Duration{0}},
				{"three", 1, []time.Duration{0, 0, 0}},
				{"three, started far too high", 30, []time.Duration{0, 0, 0}},
				{"one, joined by two", 8, []time.Duration{0, 2 * time.Minute, 3 * time.Minute}},
			} {
				got := experiment{
					latency: latency, offered: offered, limiter: adaptive(tc.start), joins: tc.joins,
					from: 5 * time.Minute, to: 10 * time.Minute,
				}.run(t)
				t.Logf("%s: %s", tc.name, got)
				if !within(got.p95, target, .02) {
					t.Errorf("%s: p95 = %s, want %s ± 2 %%", tc.name, got.p95, target)
				}
				if got.rate < .9*best.rate || got.rate > 1.02*most {
					t.Errorf("%s: rate = %.1f/s, want %.1f to %.1f", tc.name, got.rate, .9*best.rate, 1.02*most)
				}
				one = cmp.Or(one, got)
				if !within(got.rate, one.rate, .06) || !within(got.p95, one.p95, .01) {
					t.Errorf("%s: %s, want as one: %s", tc.name, got, one)
				}
			}
		})
	}
}

// TestTenfoldLoad: where the best limit is 75 and not 7, single calls matter
// less and of the limiter's costs the sawtooth alone is left.
func TestTenfoldLoad(t *testing.T) {
	t.Parallel()
	for _, dispatchers := range []int{1, 3} {
		if testing.Short() && dispatchers == 1 {
			continue
		}
		got := experiment{
			latency: "load:10,141.6ms,0.0112994", offered: 10 * offered, limiter: adaptive(100 / dispatchers),
			joins: make([]time.Duration, dispatchers), from: time.Minute, to: 2 * time.Minute,
		}.run(t)
		t.Logf("%d dispatchers: %s", dispatchers, got)
		if !within(got.p95, target, .02) || got.rate < .9*10*most || got.rate > 1.02*10*most {
			t.Errorf("%d dispatchers: %s, want p95 200 ms ± 2 %% and %.0f to %.0f calls/s",
				dispatchers, got, .9*10*most, 1.02*10*most)
		}
	}
}

// TestTargetOutOfReach: where no rate is fast enough the limit stays at its
// minimum, and calls go on.
func TestTargetOutOfReach(t *testing.T) {
	t.Parallel()
	limiter := adaptive(8)
	limiter.Min = 2
	got := experiment{
		latency: "load:75,260ms", offered: offered, limiter: limiter, joins: make([]time.Duration, 1),
		from: 5 * time.Minute, to: 10 * time.Minute,
	}.run(t)
	if want := 2 / .261; !within(got.rate, want, .01) || got.p50 != 260*time.Millisecond {
		t.Errorf("target below every latency: %s, want %.2f calls/s of 260 ms", got, want)
	}
}
