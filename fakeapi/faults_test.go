package fakeapi_test

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/ledger"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		faults fakeapi.Faults
		err    error // of the connection
		code   int   // of the answer
		took   time.Duration
		want   ledger.Counts
	}{
		"none":         {fakeapi.Faults{}, nil, 0, 0, ledger.Counts{Events: 1, Expected: 1, Accepted: 1, Calls: 1}},
		"server error": {fakeapi.Faults{ServerError: 1}, nil, 2, 0, ledger.Counts{Events: 1, Expected: 1, Errors: 1, Lost: 1, Pending: 1}},
		"reset before": {fakeapi.Faults{ResetBefore: 1}, syscall.ECONNRESET, 0, 0, ledger.Counts{Events: 1, Expected: 1, Errors: 1, Lost: 1, Pending: 1}},
		"reset after":  {fakeapi.Faults{ResetAfter: 1}, syscall.ECONNRESET, 0, 0, ledger.Counts{Events: 1, Expected: 1, Accepted: 1, Calls: 1}},
		"sent yet":     {fakeapi.Faults{SentYet: 1}, nil, 1, 0, ledger.Counts{Events: 1, Expected: 1, Accepted: 1, Calls: 1}},
		"swallow":      {fakeapi.Faults{Swallow: 1}, nil, 0, 0, ledger.Counts{Events: 1, Rejected: 1, Excused: 1}},
		"timeout": {
			fakeapi.Faults{Timeout: 1, TimeoutFor: fakeapi.Duration(30 * time.Second)},
			syscall.ECONNRESET, 0, 30 * time.Second,
			ledger.Counts{Events: 1, Expected: 1, Errors: 1, Lost: 1, Pending: 1},
		},
		"slow body": {fakeapi.Faults{SlowBody: 1, SlowBodyBy: fakeapi.Duration(4 * time.Second)}, nil, 0, 4 * time.Second, ledger.Counts{Events: 1, Expected: 1, Accepted: 1, Calls: 1}},
		"refuse":    {fakeapi.Faults{Refuse: true}, syscall.ECONNREFUSED, 0, 0, ledger.Counts{Events: 1, Expected: 1, Lost: 1, Pending: 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Faults = tc.faults })})
				a.Ledger().Announce("1", ledger.Expected{ID: "1/m/42"})
				begin := time.Now()
				r, err := a.Try("POST", "/1/messages", fakeapitest.Text("42", "1/m/42"), fakeapitest.Bearer("1"))
				if !errors.Is(err, tc.err) {
					t.Errorf("send = %v, want %v", err, tc.err)
				}
				if err == nil {
					if got := r.Error(t).Code; got != tc.code {
						t.Errorf("send = %s, want code %d", r.Body, tc.code)
					}
				}
				if got := time.Since(begin); got != tc.took {
					t.Errorf("the answer took %s, want %s", got, tc.took)
				}
				if _, err := a.Try("GET", "/ledger", ""); err != nil {
					t.Errorf("the ledger = %v: who judges must hear of what fails", err)
				}
				if diff := cmp.Diff(tc.want, a.Ledger().Totals()); diff != "" {
					t.Errorf("ledger: -want +got\n%s", diff)
				}
			})
		})
	}
}

// TestContextEndsWaiting: a client's deadline ends the wait; the send was
// accepted all the same.
func TestContextEndsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Latency = fakeapitest.Latency(t, "fixed:10s") })})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := a.Try("POST", "/1/messages", fakeapitest.Text("42", "1/m/42"), fakeapitest.Bearer("1"),
			func(r *http.Request) { *r = *r.WithContext(ctx) })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 2*time.Second {
			t.Errorf("send = %v after %s, want deadline exceeded after 2 s", err, time.Since(begin))
		}
		if got := a.Ledger().Totals().Accepted; got != 1 {
			t.Errorf("accepted = %d, want 1", got)
		}
	})
}

// TestRepeatable: the same calls at the same times get the same answers.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, seed uint64) (bodies []string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			a := fakeapitest.New(t, fakeapi.Config{Seed: seed, Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
				s.Faults = fakeapi.Faults{ServerError: .3, SentYet: .2}
				s.Latency = fakeapitest.Latency(t, "lognormal:40ms,150ms")
			})})
			for range 50 {
				begin := time.Now()
				bodies = append(bodies, a.Send("42", "").Body+time.Since(begin).String())
			}
		})
		return bodies
	}
	one := run(t, 1)
	if diff := cmp.Diff(one, run(t, 1)); diff != "" {
		t.Errorf("two runs with seed 1 differ: %s", diff)
	}
	if cmp.Equal(one, run(t, 2)) {
		t.Error("runs with seeds 1 and 2 are the same")
	}
}
