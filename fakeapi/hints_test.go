package fakeapi_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
)

// usageOf is X-Business-Use-Case-Usage of page 1.
func usageOf(percent, minutes int) string {
	return fmt.Sprintf(`{"1":[{"type":"messenger","call_count":%d,"total_cputime":1,"total_time":1,"estimated_time_to_regain_access":%d}]}`, percent, minutes)
}

// TestUsageHeaders: every answer, an accepted one too, tells how much of the limits
// is used, also when a limit is lowered while it is in use.
func TestUsageHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
			s.UsageHeaders, s.AppPerSecond = true, 500
		})})
		check := func(what string, r fakeapitest.Reply, usage, app string) {
			t.Helper()
			if got := r.Header.Get("X-App-Usage"); r.Usage != usage || got != app {
				t.Errorf("after %s: usage = %s and of the app %s, want %s and %s", what, r.Usage, got, usage, app)
			}
		}
		app := func(percent int) string {
			return fmt.Sprintf(`{"call_count":%d,"total_cputime":1,"total_time":1}`, percent)
		}
		burst(t, a, 50)
		check("51 of 300", a.Send("42", ""), usageOf(17, 0), app(10))
		video := `{"recipient":{"id":"42"},"message":{"attachment":{"type":"video","payload":{"url":"https://x.test/a.mp4"}}}}`
		check("one video of 10", a.Post(video), usageOf(10, 0), app(10))
		burst(t, a, 248)
		check("300 of 300", a.Send("42", ""), usageOf(100, 0), app(60))
		check("a refused call", a.Send("42", ""), usageOf(100, 0), app(60))
		check("a call of no page", a.Ask("POST", "/1/messages", fakeapitest.Text("42", "")), "", app(60))
		check("a profile", a.Ask("GET", "/42", "", fakeapitest.Bearer("1")), "", app(60))
		time.Sleep(time.Second)
		if err := a.Patch([]byte(`{"pages":{"1":{"text":150}}}`)); err != nil {
			t.Fatal(err)
		}
		burst(t, a, 149)
		check("150 of a limit that was lowered to 150", a.Send("42", ""), usageOf(100, 0), app(30))

		// Without the setting only the quota of 24 h is told.
		if err := a.Patch([]byte(`{"usage_headers":false}`)); err != nil {
			t.Fatal(err)
		}
		check("the setting is off", a.Send("42", ""), usageOf(0, 0), "")
		if err := a.Patch([]byte(`{"quota_per_person":200,"audience":1,"pages":{"1":null}}`)); err != nil {
			t.Fatal(err)
		}
		burst(t, a, 49)
		check("50 of a quota of 200", a.Send("42", ""), usageOf(25, 0), "")
	})
}

// TestRetryAfter: a throttled answer says when to come again, in the form that is set,
// and the call passes then.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC of 1 January 2000
		a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
			s.RetryAfter, s.Text.PerSecond, s.RecipientPerSecond = fakeapi.Seconds, 5, 4
		})})
		patch := func(settings string) {
			t.Helper()
			if err := a.Patch([]byte(settings)); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what string, r fakeapitest.Reply, code int, after, usage string) {
			t.Helper()
			if e, got := r.Error(t), r.Header.Get("Retry-After"); e.Code != code || got != after || r.Usage != usage {
				t.Errorf("%s: code %d, Retry-After %q, usage %s; want %d, %q, %s", what, e.Code, got, r.Usage, code, after, usage)
			}
		}
		for range 4 {
			check("accepted", a.Send("42", ""), 0, "", usageOf(0, 0))
		}
		check("limit of the recipient", a.Send("42", ""), 613, "1", usageOf(0, 0))
		check("limit of the page", a.Send("43", ""), 613, "1", usageOf(0, 0))
		time.Sleep(time.Second)
		check("a second later", a.Send("42", ""), 0, "", usageOf(0, 0))
		check("another error", a.Send("error-551", ""), 551, "", usageOf(0, 0))

		patch(`{"inject":[{"code":"4","count":1,"regain":"150s"}]}`)
		check("injected", a.Send("42", ""), 4, "150", usageOf(0, 2))
		check("after what was injected", a.Send("42", ""), 0, "", usageOf(0, 0))
		patch(`{"retry_after":"date","inject":[{"code":"80001","count":1,"regain":"2s"}]}`)
		time.Sleep(500 * time.Millisecond) // 1.5 s past midnight
		check("injected, as a date", a.Send("42", ""), 80001, "Sat, 01 Jan 2000 00:00:04 GMT", usageOf(0, 0))

		// A quota of 1 that is used up now is free after the next midnight's whole day.
		patch(`{"retry_after":"seconds","quota_per_person":1,"audience":1,"recipient_per_second":0,"text":{"per_second":300}}`)
		time.Sleep(time.Second)
		check("the quota's last", a.Send("42", ""), 0, "", usageOf(100, 2*24*60))
		check("quota", a.Send("42", ""), 80006, fmt.Sprint(2*24*60*60-2), usageOf(100, 2*24*60))

		patch(`{"quota_per_person":0,"app_per_second":1}`)
		check("the app's last", a.Send("42", ""), 0, "", usageOf(0, 0))
		check("limit of the app", a.Send("42", ""), 4, "1", usageOf(0, 0))

		patch(`{"retry_after":""}`)
		check("without the setting", a.Send("42", ""), 4, "", usageOf(0, 0))
		for _, wrong := range []string{`{"retry_after":"soon"}`, `{"inject":[{"code":"4","regain":"-1s"}]}`} {
			if err := a.Patch([]byte(wrong)); err == nil {
				t.Errorf("Patch(%s) = nil, want an error", wrong)
			}
		}
	})
}
