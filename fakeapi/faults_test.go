package fakeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
		"none":         {fakeapi.Faults{}, nil, 0, 0, ledger.Counts{Events: 1, Expected: 1, Accepted: 1}},
		"server error": {fakeapi.Faults{ServerError: 1}, nil, 2, 0, ledger.Counts{Events: 1, Expected: 1, Errors: 1, Lost: 1, Pending: 1}},
		"reset before": {fakeapi.Faults{ResetBefore: 1}, syscall.ECONNRESET, 0, 0, ledger.Counts{Events: 1, Expected: 1, Errors: 1, Lost: 1, Pending: 1}},
		"reset after":  {fakeapi.Faults{ResetAfter: 1}, syscall.ECONNRESET, 0, 0, ledger.Counts{Events: 1, Expected: 1, Accepted: 1}},
		"sent yet":     {fakeapi.Faults{SentYet: 1}, nil, 1, 0, ledger.Counts{Events: 1, Expected: 1, Accepted: 1}},
		"swallow":      {fakeapi.Faults{Swallow: 1}, nil, 0, 0, ledger.Counts{Events: 1, Rejected: 1, Excused: 1}},
		"timeout": {
			fakeapi.Faults{Timeout: 1, TimeoutFor: fakeapi.Duration(30 * time.Second)},
			syscall.ECONNRESET, 0, 30 * time.Second,
			ledger.Counts{Events: 1, Expected: 1, Errors: 1, Lost: 1, Pending: 1},
		},
		"slow body": {fakeapi.Faults{SlowBody: 1, SlowBodyBy: fakeapi.Duration(4 * time.Second)}, nil, 0, 4 * time.Second, ledger.Counts{Events: 1, Expected: 1, Accepted: 1}},
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

type batchAnswer struct {
	Code    int
	Headers []struct{ Name, Value string }
	Body    string
}

func batch(t *testing.T, a *fakeapitest.Platform, items []map[string]string, options ...fakeapitest.Option) ([]*batchAnswer, fakeapitest.Reply) {
	t.Helper()
	b, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	r := a.Ask("POST", "/", url.Values{"batch": {string(b)}}.Encode(), append([]fakeapitest.Option{fakeapitest.Form}, options...)...)
	var list []*batchAnswer
	_ = json.Unmarshal([]byte(r.Body), &list) // an error is no list
	return list, r
}

func TestBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
			s.Text.PerSecond = 3
			s.Latency = fakeapitest.Latency(t, "fixed:50ms")
		})})
		item := func(path, to, token string) map[string]string {
			f := url.Values{"recipient": {`{"id":"` + to + `"}`}, "message": {`{"text":"hi"}`}}
			if token != "" {
				f.Set("access_token", token)
			}
			return map[string]string{"method": "POST", "relative_url": path, "body": f.Encode()}
		}
		begin := time.Now()
		list, _ := batch(t, a, []map[string]string{
			item("me/messages", "42", ""),
			item("v23.0/1/messages", "error-551", ""),
			item("1/messages", "42", ""),
			item("me/messages", "42", ""), // the fourth call of page 1
			item("me/messages", "42", "token-2"),
			item("me/messages", "42", "wrong"),
			item("me/friends", "42", ""),
			{"method": "GET", "relative_url": "me/messages"},
		}, fakeapitest.Bearer("1"))
		if time.Since(begin) != 50*time.Millisecond {
			t.Errorf("batch took %s, want one latency of 50ms", time.Since(begin))
		}
		want := []int{0, 551, 0, 613, 0, 190, 2500, 100}
		var got []int
		for i, one := range list {
			r := fakeapitest.Reply{Status: one.Code, Body: one.Body}
			got = append(got, r.Error(t).Code)
			if (one.Code == 200) != (got[i] == 0) {
				t.Errorf("item %d: status %d with code %d", i, one.Code, got[i])
			}
			// A call of no page has no usage.
			if h := one.Headers; len(h) == 0 || h[0].Value != "application/json; charset=UTF-8" || (len(h) == 2) != (i < 5) {
				t.Errorf("item %d: headers = %v, want the content type, and the usage with the first five", i, h)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("codes of the items: -want +got\n%s", diff)
		}

		if r := a.Ask("POST", "/", `{"include_headers":false,"batch":[{"method":"POST","relative_url":"me/messages"}]}`,
			fakeapitest.Bearer("1")); !strings.HasPrefix(r.Body, `[{"code":`) || strings.Contains(r.Body, "headers") {
			t.Errorf("batch without headers = %s, want none", r.Body)
		}

		if err := a.Patch([]byte(`{"text":{"per_second":300},"faults":{"null_item":1}}`)); err != nil {
			t.Fatal(err)
		}
		before := a.Ledger().Totals().Accepted
		list, _ = batch(t, a, []map[string]string{item("me/messages", "42", ""), item("me/messages", "42", "")}, fakeapitest.Bearer("1"))
		if len(list) != 2 || list[0] != nil || list[1] != nil {
			t.Errorf("batch with null items = %v, want two nulls", list)
		}
		if got := a.Ledger().Totals().Accepted - before; got != 2 {
			t.Errorf("accepted behind the nulls = %d, want 2", got)
		}
		many := slices.Repeat([]map[string]string{item("me/messages", "42", "")}, 51)
		if _, r := batch(t, a, many, fakeapitest.Bearer("1")); r.Error(t).Code != 100 {
			t.Errorf("batch of 51 = %s, want code 100", r.Body)
		}
		if list, _ := batch(t, a, many[:50], fakeapitest.Bearer("1")); len(list) != 50 {
			t.Errorf("batch of 50 = %d answers, want 50", len(list))
		}
		if r := a.Ask("POST", "/v23.0/", "batch=nothing", fakeapitest.Form); r.Error(t).Code != 100 {
			t.Errorf("batch that is no list = %s, want code 100", r.Body)
		}
	})
}

func TestControl(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	tests := []struct {
		method, path, body string
		status             int
		want               string // part of the body
	}{
		{"GET", "/healthz", "", 200, "ok"},
		{"POST", "/ledger/expect", `{"page":"1","mid":"m_1","recipients":["7","8"]}`, 200, `{"announced":2}`},
		{"POST", "/ledger/expect", `{"page":"1","ids":["x","y","z"]}`, 200, `{"announced":3}`},
		{"POST", "/ledger/expect", `{"page":"1"}`, 400, "must be set"},
		{"POST", "/ledger/expect", `{"page":"1","mid":"m"}`, 400, "must be set"},
		{"POST", "/ledger/expect", `{"page":"1","mid":"m","recipients":["1"],"ids":["x"]}`, 400, "must be set"},
		{"POST", "/ledger/expect", `{"page":"1","idz":["x"]}`, 400, "idz"},
		{"POST", "/ledger/excuse", `{"ids":["x","unknown"]}`, 200, `{"excused":1}`},
		{"POST", "/1/messages?access_token=token-1", fakeapitest.Text("7", "1/m_1/7"), 200, "m_"},
		{"GET", "/ledger", "", 200, `"expected":4,"accepted":1,"refused":0,"rejected":0,"errors":0,"lost":3`},
		{"GET", "/ledger?pages=0", "", 200, `"answers":{}}`},
		{"GET", "/ledger?page=2", "", 200, `"answers":{}}`},
		{"GET", "/ledger?seconds=x", "", 400, "seconds"},
		{"POST", "/control", `{"text":{"per_second":0}}`, 400, "text: limit 0"},
		{"POST", "/control", `{"latency":"soon"}`, 400, "latency"},
		{"POST", "/control", `{"fault":{}}`, 400, "fault"},
		{"POST", "/control", `{"faults":{"timeout":2}}`, 400, "faults.timeout"},
		{"POST", "/control", `{} {}`, 400, "after"},
		{"POST", "/control", `{"text":{"per_second":50},"latency":"fixed:1ms","pages":{"5":{"text":9,"state":"revoked"}}}`, 200, `"per_second":50`},
		{"POST", "/control", `{"latency":"none","pages":{"6":{"text":8}}}`, 200, `"5":{"text":9,"state":"revoked"},"6":{"text":8}`},
		{"POST", "/control", `{"pages":{"5":null,"6":{"state":"asleep"}}}`, 400, `pages.6: state`},
		{"POST", "/control", `{"inject":[{"code":"999"}]}`, 400, "inject[0].code"},
		{"GET", "/control", "", 200, `"latency":"none"`},
		{"POST", "/ledger/reset", "", 200, "ok"},
		{"GET", "/ledger", "", 200, `"expected":0,"accepted":0`},
	}
	for _, tc := range tests {
		r := a.Ask(tc.method, tc.path, tc.body)
		if r.Status != tc.status || !strings.Contains(r.Body, tc.want) {
			t.Errorf("%s %s %s = %d %s, want %d and %s", tc.method, tc.path, tc.body, r.Status, r.Body, tc.status, tc.want)
		}
	}
	if got := a.Settings(); got.Text.PerSecond != 50 || got.Media.PerSecond != 10 {
		t.Errorf("settings = %+v, want text 50 and media 10", got)
	}
}

// TestInjectionKeepsItsCount: changing something else does not begin a counted
// injection again.
func TestInjectionKeepsItsCount(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	if err := a.Patch([]byte(`{"inject":[{"code":"551","count":2}]}`)); err != nil {
		t.Fatal(err)
	}
	var got []int
	for range 4 {
		got = append(got, a.Send("42", "").Error(t).Code)
		if err := a.Patch([]byte(`{"latency":"none"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int{551, 551, 0, 0}, got); diff != "" {
		t.Errorf("codes: -want +got\n%s", diff)
	}
}

// TestInjectionIsReplaced: a new list of injections takes over nothing of the
// old one.
func TestInjectionIsReplaced(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	for _, patch := range []string{`{"inject":[{"code":"551","page":"9","count":2}]}`, `{"inject":[{"code":"613"}]}`} {
		if err := a.Patch([]byte(patch)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]fakeapi.Inject{{Code: "613"}}, a.Settings().Inject); diff != "" {
		t.Errorf("injections: -want +got\n%s", diff)
	}
	if err := a.Patch([]byte(`{"inject":null}`)); err != nil || len(a.Settings().Inject) != 0 {
		t.Errorf("injections after null = %+v %v, want none", a.Settings().Inject, err)
	}
	if err := a.Patch([]byte(`{"inject":[{"code":"613","count":-1}]}`)); err == nil || !strings.Contains(err.Error(), "inject[0].count") {
		t.Errorf("Patch with a negative count = %v, want it to name inject[0].count", err)
	}
}

// TestSettingsAreCopies: neither the settings that were applied nor those that
// were read can be changed behind the platform's back.
func TestSettingsAreCopies(t *testing.T) {
	t.Parallel()
	s := fakeapi.DefaultSettings()
	s.Pages = map[string]*fakeapi.PageSettings{"1": {Text: 5}}
	s.Status = map[fakeapi.Code]int{"613": 429}
	a := fakeapitest.New(t, fakeapi.Config{Settings: &s})
	read := a.Settings()
	for _, mine := range []fakeapi.Settings{s, read} {
		mine.Pages["1"].State = fakeapi.Revoked
		mine.Pages["2"] = &fakeapi.PageSettings{Text: 1}
		mine.Status["613"] = 599
	}
	got := a.Settings()
	if diff := cmp.Diff(map[string]*fakeapi.PageSettings{"1": {Text: 5}}, got.Pages); diff != "" || got.Status["613"] != 429 {
		t.Errorf("settings were changed from outside: status %d, pages -want +got\n%s", got.Status["613"], diff)
	}
}

// TestReset: the answers belong to the run that the ledger is emptied of.
func TestReset(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	a.Send("error-551", "")
	a.Ask("POST", "/ledger/reset", "")
	if got := a.Answers(); len(got) != 0 {
		t.Errorf("answers after reset = %v, want none", got)
	}
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

func TestNewRefusesTokens(t *testing.T) {
	t.Parallel()
	for name, tokens := range map[string]map[string]string{
		"empty token": {"1": ""}, "empty page": {"": "x"}, "shared token": {"1": "sesame", "2": "sesame"},
	} {
		if _, err := fakeapi.New(fakeapi.Config{Tokens: tokens}); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("New with %s = %v, want an error without the token", name, err)
		}
	}
}
