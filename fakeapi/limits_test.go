package fakeapi_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/ledger"
	"chatclub/fakeapi/limit"
)

// burst sends n texts of page 1 at this moment and counts the codes; 0 is
// accepted.
func burst(t *testing.T, a *fakeapitest.Platform, n int) map[int]int {
	t.Helper()
	got := make(map[int]int)
	for range n {
		got[a.Send("42", "").Error(t).Code]++
	}
	return got
}

func TestPageLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{})
		if diff := cmp.Diff(map[int]int{0: 300, 613: 20}, burst(t, a, 320)); diff != "" {
			t.Errorf("320 texts in one second: -want +got\n%s", diff)
		}
		video := `{"recipient":{"id":"42"},"message":{"attachment":{"type":"video","payload":{"url":"https://x.test/a.mp4"}}}}`
		got := make(map[int]int)
		for range 15 {
			got[a.Post(video).Error(t).Code]++
		}
		if diff := cmp.Diff(map[int]int{0: 10, 613: 5}, got); diff != "" {
			t.Errorf("15 videos in the same second: -want +got\n%s", diff)
		}
		// Another page has its own limit.
		r := a.Ask("POST", "/2/messages", fakeapitest.Text("42", ""), fakeapitest.Bearer("2"))
		if r.Status != 200 {
			t.Errorf("send of another page = %d, want 200", r.Status)
		}
		time.Sleep(time.Second)
		if diff := cmp.Diff(map[int]int{0: 300, 613: 1}, burst(t, a, 301)); diff != "" {
			t.Errorf("301 texts in the next second: -want +got\n%s", diff)
		}
		want := ledger.Second{
			Unix: time.Now().Unix() - 1,
			Text: ledger.Cell{Accepted: 300, Refused: 20, Messages: 300}, Media: ledger.Cell{Accepted: 10, Refused: 5, Messages: 10},
		}
		if diff := cmp.Diff(want, a.Ledger().Report(ledger.Query{Page: "1", Pages: 1, Seconds: 9}).Pages[0].Series[0]); diff != "" {
			t.Errorf("the ledger's first second: -want +got\n%s", diff)
		}
	})
}

// Another app that begins to make more calls makes them at once.
func TestOtherAppMakesMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
			s.Text.PerSecond, s.Text.OtherApp = 10, 1e-3
		})})
		burst(t, a, 1)
		if err := a.Patch([]byte(`{"text":{"other_app":8}}`)); err != nil {
			t.Fatal(err)
		}
		burst(t, a, 1)
		time.Sleep(2500 * time.Millisecond)
		if diff := cmp.Diff(map[int]int{0: 5, 613: 15}, burst(t, a, 20)); diff != "" {
			t.Errorf("20 sends in the middle of a second: -want +got\n%s", diff)
		}
	})
}

func TestLimitOptions(t *testing.T) {
	t.Parallel()
	small := func(s *fakeapi.Settings) { s.Text.PerSecond = 10 }
	tests := map[string]struct {
		change func(*fakeapi.Settings)
		want   map[int]int // of 20 sends to one recipient at once
	}{
		"limit":         {small, map[int]int{0: 10, 613: 10}},
		"page override": {func(s *fakeapi.Settings) { s.Pages = map[string]*fakeapi.PageSettings{"1": {Text: 5}} }, map[int]int{0: 5, 613: 15}},
		"leaky bucket":  {func(s *fakeapi.Settings) { s.Text = fakeapi.Limit{Algorithm: limit.LeakyBucket, PerSecond: 40} }, map[int]int{0: 4, 613: 16}},
		"lenient": {func(s *fakeapi.Settings) {
			small(s)
			s.Text.LenientSeconds, s.Text.LenientExtra = 1, .3
		}, map[int]int{0: 13, 613: 7}},
		"another app, hardly ever": {func(s *fakeapi.Settings) {
			small(s)
			s.Text.OtherApp = 1e-12
		}, map[int]int{0: 9, 613: 11}},
		"per recipient": {func(s *fakeapi.Settings) { s.RecipientPerSecond = 4 }, map[int]int{0: 4, 613: 16}},
		"whole app":     {func(s *fakeapi.Settings) { s.AppPerSecond = 6 }, map[int]int{0: 6, 4: 14}},
		"quota":         {func(s *fakeapi.Settings) { s.QuotaPerPerson, s.Audience = 4, 2 }, map[int]int{0: 8, 80006: 12}},
		"error ratio": {func(s *fakeapi.Settings) {
			small(s)
			s.Block = fakeapi.Block{ErrorRatio: .25, MinCalls: 5}
		}, map[int]int{0: 10, 613: 4, 368: 6}},
		"swallowed is no error": {func(s *fakeapi.Settings) {
			s.Faults.Swallow = 1
			s.Block = fakeapi.Block{ErrorRatio: .25, MinCalls: 5}
		}, map[int]int{0: 20}},
		"injected":          {func(s *fakeapi.Settings) { s.Inject = []fakeapi.Inject{{Code: "551", Count: 3}} }, map[int]int{0: 17, 551: 3}},
		"injected, other":   {func(s *fakeapi.Settings) { s.Inject = []fakeapi.Inject{{Code: "551", Page: "2"}} }, map[int]int{0: 20}},
		"injected, to user": {func(s *fakeapi.Settings) { s.Inject = []fakeapi.Inject{{Code: "551", Recipient: "42"}} }, map[int]int{551: 20}},
		"revoked": {func(s *fakeapi.Settings) {
			s.Pages = map[string]*fakeapi.PageSettings{"1": {State: fakeapi.Revoked}}
		}, map[int]int{190: 20}},
		"restricted": {func(s *fakeapi.Settings) {
			s.Pages = map[string]*fakeapi.PageSettings{"1": {State: fakeapi.Restricted}}
		}, map[int]int{10: 20}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(tc.change)})
				if diff := cmp.Diff(tc.want, burst(t, a, 20)); diff != "" {
					t.Errorf("20 sends: -want +got\n%s", diff)
				}
			})
		})
	}
}

// TestRecipientLimitForgets: the counts of recipients end with their second, but
// not with a change of some setting.
func TestRecipientLimitForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.RecipientPerSecond = 1 })})
		got := func() int { return a.Send("42", "").Error(t).Subcode }
		codes := []int{got(), got()}
		if err := a.Patch([]byte(`{"audience":5}`)); err != nil {
			t.Fatal(err)
		}
		codes = append(codes, got())
		time.Sleep(time.Second)
		codes = append(codes, got(), got())
		if diff := cmp.Diff([]int{0, 2018338, 2018338, 0, 2018338}, codes); diff != "" {
			t.Errorf("subcodes: -want +got\n%s", diff)
		}
	})
}

// TestDay: quota, block and page state over more than a day of virtual time.
func TestDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
			s.QuotaPerPerson, s.Audience = 200, 1
			s.Pages = map[string]*fakeapi.PageSettings{"2": {State: fakeapi.Disabled, Until: begin.Add(6 * time.Hour)}}
		})})
		if diff := cmp.Diff(map[int]int{0: 200, 80006: 10}, burst(t, a, 210)); diff != "" {
			t.Errorf("first 210 sends: -want +got\n%s", diff)
		}
		page2 := func() int {
			return a.Ask("POST", "/2/messages", fakeapitest.Text("42", ""), fakeapitest.Bearer("2")).Error(t).Code
		}
		// A bubble begins at midnight UTC, and so does the quota's window. The
		// 201st call passes when 200 × (1 − e) + 1 ≤ 200: a 200th of a day after
		// the next midnight.
		regain := func(minutes int) {
			t.Helper()
			want := fmt.Sprintf(`"estimated_time_to_regain_access":%d}`, minutes)
			if usage := a.Send("42", "").Usage; !strings.Contains(usage, want) {
				t.Errorf("usage after %s = %s, want %s", time.Since(begin), usage, want)
			}
		}
		regain(24*60 + 8)
		time.Sleep(6*time.Hour - time.Second)
		if got := page2(); got != 368 {
			t.Errorf("disabled page after 5:59:59 = %d, want 368", got)
		}
		time.Sleep(time.Second)
		if got := page2(); got != 0 {
			t.Errorf("disabled page after 6 h = %d, want 0", got)
		}
		regain(18*60 + 8)
		time.Sleep(30 * time.Hour)
		// Half of the first day's calls lie in the last 24 h.
		if diff := cmp.Diff(map[int]int{0: 100, 80006: 1}, burst(t, a, 101)); diff != "" {
			t.Errorf("101 sends after a day and a half: -want +got\n%s", diff)
		}
		time.Sleep(36 * time.Hour)
		if diff := cmp.Diff(map[int]int{0: 200}, burst(t, a, 200)); diff != "" {
			t.Errorf("200 sends on the fourth day: -want +got\n%s", diff)
		}

		if err := a.Patch([]byte(`{"quota_per_person":0,"block":{"error_ratio":0.5,"min_calls":10,"for":"24h"}}`)); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			a.Send("error-551", "")
		}
		time.Sleep(24*time.Hour - time.Second)
		if got := page2(); got != 368 {
			t.Errorf("app blocked for 23:59:59 = %d, want 368", got)
		}
		time.Sleep(time.Second)
		if got := page2(); got != 0 {
			t.Errorf("app after its block = %d, want 0", got)
		}
	})
}

// TestBadRecipients: the same recipient always gets the same answer, in the
// published mix.
func TestBadRecipients(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{Seed: 3, Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
		s.BadRecipients = .3
		s.Text.PerSecond = 1_000_000
	})})
	codes := make(map[int]float64)
	const n = 4000
	for i := range n {
		to := fmt.Sprint(1000 + i)
		code := a.Send(to, "").Error(t).Code
		codes[code]++
		if again := a.Send(to, "").Error(t).Code; again != code {
			t.Fatalf("recipient %s: code %d, then %d", to, code, again)
		}
		if a.BadRecipient("1", to) != (code != 0) {
			t.Fatalf("BadRecipient(%s) disagrees with code %d", to, code)
		}
	}
	// Bounds are about four standard deviations wide.
	for code, want := range map[int]float64{0: .7, 10: .3 * 61.5 / 90.9, 551: .3 * 17.4 / 90.9, 100: .3 * 12 / 90.9} {
		if got := codes[code] / n; got < want-.03 || got > want+.03 {
			t.Errorf("share of code %d = %.3f, want %.3f ± .03", code, got, want)
		}
	}
}

func TestStatusOverride(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
		s.Status = map[fakeapi.Code]int{"613": 429}
	})})
	if got := a.Send("error-613", "").Status; got != 429 {
		t.Errorf("status of 613 = %d, want 429", got)
	}
	if got := a.Send("error-613-2018338", "").Status; got != 400 {
		t.Errorf("status of 613/2018338 = %d, want 400", got)
	}
}
