package fakeapi_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
)

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

// TestBatchRequiresProof: each item of a batch needs the proof of its token.
func TestBatchRequiresProof(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{AppSecret: "right", Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.RequireProof = true })})
	// printf token-1 | openssl dgst -sha256 -hmac right
	const proof = "02f3b1bda4d60b6687c47f64ebd5cb4132b7bde68207b5483fbeca89bb6ce1e5"
	item := func(query string) map[string]string {
		form := url.Values{"recipient": {`{"id":"42"}`}, "message": {`{"text":"hi"}`}}
		return map[string]string{"method": "POST", "relative_url": "me/messages?" + query, "body": form.Encode()}
	}
	items := []map[string]string{item(""), item("appsecret_proof=" + proof), item("access_token=token-2"), item("appsecret_proof=00")}
	for query, want := range map[string][]int{"": {100, 0, 100, 100}, "?appsecret_proof=" + proof: {0, 0, 100, 100}} {
		b, err := json.Marshal(items)
		if err != nil {
			t.Fatal(err)
		}
		r := a.Ask("POST", "/"+query, url.Values{"batch": {string(b)}}.Encode(), fakeapitest.Form, fakeapitest.Bearer("1"))
		var list []batchAnswer
		if err := json.Unmarshal([]byte(r.Body), &list); err != nil {
			t.Fatalf("batch = %s: %v", r.Body, err)
		}
		var got []int
		for _, one := range list {
			got = append(got, fakeapitest.Reply{Status: one.Code, Body: one.Body}.Error(t).Code)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("codes of a batch with %q: -want +got\n%s", query, diff)
		}
	}
	if n := a.Ledger().Totals().Calls; n != 3 {
		t.Errorf("%d calls were judged, want the three with a proof", n)
	}
	for query, want := range map[string]int{"": 100, "?appsecret_proof=" + proof: 0} {
		if got := a.Ask("GET", "/v23.0/me/messenger_profile"+query, "", fakeapitest.Bearer("1")).Error(t).Code; got != want {
			t.Errorf("GET messenger_profile%s = code %d, want %d", query, got, want)
		}
	}
}
