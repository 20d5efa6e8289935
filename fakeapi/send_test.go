package fakeapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
)

func TestSuccess(t *testing.T) {
	t.Parallel()
	within := time.Unix(1000, 0) // all in one second, however slow the machine is
	a := fakeapitest.New(t, fakeapi.Config{Seed: 7, Now: func() time.Time { return within }})
	seen := make(map[string]bool)
	for range 50 {
		r := a.Send("42", "1/m/42")
		var body struct {
			Recipient string `json:"recipient_id"`
			Message   string `json:"message_id"`
		}
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil || r.Status != http.StatusOK {
			t.Fatalf("send = %d %q, want 200 and JSON (%v)", r.Status, r.Body, err)
		}
		if body.Recipient != "42" || !strings.HasPrefix(body.Message, "m_") || seen[body.Message] {
			t.Errorf("send = %+v, want recipient 42 and a new message id m_…", body)
		}
		seen[body.Message] = true
	}
}

func TestURLForms(t *testing.T) {
	t.Parallel()
	for path, code := range map[string]int{
		"/1/messages":           0,
		"/me/messages":          0,
		"/v2.6/1/messages":      0,
		"/v23.0/me/messages":    0,
		"/v23.0/1/messages/":    0,
		"/v23.0/2/messages":     190, // another page than the token's
		"/v23.0/x/messages":     190,
		"/v23.0/messages":       2500,
		"/v23.0/1/1/messages":   2500,
		"/v23.0/1/conversation": 2500,
		"/version/1/messages":   2500,
	} {
		a := fakeapitest.New(t, fakeapi.Config{})
		r := a.Ask("POST", path, fakeapitest.Text("42", ""), fakeapitest.Bearer("1"))
		if code == 0 {
			if r.Status != http.StatusOK {
				t.Errorf("POST %s = %d %s, want 200", path, r.Status, r.Body)
			}
			continue
		}
		if got := r.Error(t).Code; got != code {
			t.Errorf("POST %s = code %d, want %d", path, got, code)
		}
	}
	r := fakeapitest.New(t, fakeapi.Config{}).Ask("GET", "/v23.0/1/messages", "", fakeapitest.Bearer("1"))
	if e := r.Error(t); e.Code != 100 || e.Subcode != 33 {
		t.Errorf("GET messages = %d/%d, want 100/33", e.Code, e.Subcode)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	withToken := func(token string) string {
		return `{"access_token":"` + token + `","recipient":{"id":"42"},"message":{"text":"hi"}}`
	}
	tests := map[string]struct {
		url     string
		body    string
		options []fakeapitest.Option
		code    int // 0: accepted
	}{
		"bearer":                 {"/1/messages", fakeapitest.Text("42", ""), []fakeapitest.Option{fakeapitest.Header("Authorization", "Bearer token-1")}, 0},
		"bearer, lower case":     {"/1/messages", fakeapitest.Text("42", ""), []fakeapitest.Option{fakeapitest.Header("Authorization", "bearer token-1")}, 0},
		"OAuth":                  {"/1/messages", fakeapitest.Text("42", ""), []fakeapitest.Option{fakeapitest.Header("Authorization", "OAuth token-1")}, 0},
		"query":                  {"/1/messages?access_token=token-1", fakeapitest.Text("42", ""), nil, 0},
		"JSON body":              {"/1/messages", withToken("token-1"), nil, 0},
		"form":                   {"/1/messages", `access_token=token-1&recipient=%7B%22id%22%3A%2242%22%7D&message=%7B%22text%22%3A%22hi%22%7D`, []fakeapitest.Option{fakeapitest.Form}, 0},
		"me":                     {"/me/messages?access_token=token-1", fakeapitest.Text("42", ""), nil, 0},
		"header wins over query": {"/1/messages?access_token=token-1", fakeapitest.Text("42", ""), []fakeapitest.Option{fakeapitest.Header("Authorization", "Bearer wrong")}, 190},
		"none":                   {"/1/messages", fakeapitest.Text("42", ""), nil, 104},
		"wrong":                  {"/1/messages?access_token=token-x", fakeapitest.Text("42", ""), nil, 190},
		"of another page":        {"/1/messages?access_token=token-2", fakeapitest.Text("42", ""), nil, 190},
		"of no page":             {"/me/messages?access_token=token-x", fakeapitest.Text("42", ""), nil, 190},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := fakeapitest.New(t, fakeapi.Config{})
			r := a.Ask("POST", tc.url, tc.body, tc.options...)
			if got := r.Error(t).Code; got != tc.code {
				t.Errorf("send = %d %s, want code %d", r.Status, r.Body, tc.code)
			}
		})
	}
}

// bodies are the same message in the forms that the platform takes.
func TestBodyForms(t *testing.T) {
	t.Parallel()
	f := url.Values{
		"recipient": {`{"id":"42"}`}, "messaging_type": {"UPDATE"},
		"message": {`{"text":"Grüße / 100 %","metadata":"1/m/42"}`},
	}
	for name, tc := range map[string]struct {
		body    string
		options []fakeapitest.Option
	}{
		"JSON":                  {`{"recipient":{"id":"42"},"messaging_type":"UPDATE","message":{"text":"Grüße / 100 %","metadata":"1/m/42"}}`, nil},
		"JSON, escaped":         {`{"recipient":{"id":"42"},"message":{"text":"Gr\u00fc\u00dfe \/ 100 \u0025","metadata":"1\/m\/42"}}`, nil},
		"JSON, numeric id":      {`{"recipient":{"id":42},"message":{"text":"Grüße / 100 %","metadata":"1/m/42"}}`, nil},
		"JSON in JSON":          {`{"recipient":"{\"id\":\"42\"}","message":"{\"text\":\"Grüße / 100 %\",\"metadata\":\"1/m/42\"}"}`, nil},
		"form":                  {f.Encode(), []fakeapitest.Option{fakeapitest.Form}},
		"form with charset":     {f.Encode(), []fakeapitest.Option{fakeapitest.Header("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")}},
		"JSON, no content type": {`{"recipient":{"id":"42"},"message":{"text":"Grüße / 100 %","metadata":"1/m/42"}}`, []fakeapitest.Option{fakeapitest.Header("Content-Type", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := fakeapitest.New(t, fakeapi.Config{})
			var got fakeapi.Acceptance
			stop := a.Observe(func(x fakeapi.Acceptance) { got = x })
			a.Ask("POST", "/1/messages", tc.body, append(tc.options, fakeapitest.Bearer("1"))...)
			got.MID, got.At = "", time.Time{}
			if diff := cmp.Diff(fakeapi.Acceptance{Page: "1", Recipient: "42", ID: "1/m/42", Text: "Grüße / 100 %"}, got); diff != "" {
				t.Errorf("accepted: -want +got\n%s", diff)
			}
			stop()
			got = fakeapi.Acceptance{}
			a.Ask("POST", "/1/messages", tc.body, append(tc.options, fakeapitest.Bearer("1"))...)
			if got.ID != "" {
				t.Error("observed after stop")
			}
		})
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	replies := strings.Repeat(`{"content_type":"text","title":"a","payload":"b"},`, 14)
	tests := map[string]struct {
		body string
		want string // code, or code/subcode; empty: accepted
	}{
		"not JSON":             {`{"recipient"`, "100"},
		"a list":               {`[]`, "100"},
		"empty":                {``, "100"},
		"null":                 {`null`, "100"},
		"no recipient":         {`{"message":{"text":"hi"}}`, "100"},
		"empty recipient":      {`{"recipient":{"id":""},"message":{"text":"hi"}}`, "100"},
		"recipient is a list":  {`{"recipient":[1],"message":{"text":"hi"}}`, "100"},
		"no message":           {`{"recipient":{"id":"42"}}`, "100/2018034"},
		"empty message":        {`{"recipient":{"id":"42"},"message":{}}`, "100/2018034"},
		"empty text":           {`{"recipient":{"id":"42"},"message":{"text":""}}`, "100/2018034"},
		"text is a number":     {`{"recipient":{"id":"42"},"message":{"text":1}}`, "100"},
		"2000 characters":      {text2("ä", 2000), ""},
		"2001 characters":      {text2("ä", 2001), "100"},
		"2000 units":           {text2("😀", 1000), ""},
		"2002 units":           {text2("😀", 1001), "100"},
		"unknown type":         {`{"recipient":{"id":"42"},"messaging_type":"SPAM","message":{"text":"hi"}}`, "100"},
		"tag is missing":       {`{"recipient":{"id":"42"},"messaging_type":"MESSAGE_TAG","message":{"text":"hi"}}`, "100"},
		"tag":                  {`{"recipient":{"id":"42"},"messaging_type":"MESSAGE_TAG","tag":"HUMAN_AGENT","message":{"text":"hi"}}`, ""},
		"13 quick replies":     {`{"recipient":{"id":"42"},"message":{"text":"hi","quick_replies":[` + replies[:13*len(replies)/14-1] + `]}}`, ""},
		"14 quick replies":     {`{"recipient":{"id":"42"},"message":{"text":"hi","quick_replies":[` + strings.TrimSuffix(replies, ",") + `]}}`, "100"},
		"metadata of 999":      {`{"recipient":{"id":"42"},"message":{"text":"hi","metadata":"` + strings.Repeat("x", 999) + `"}}`, ""},
		"metadata of 1000":     {`{"recipient":{"id":"42"},"message":{"text":"hi","metadata":"` + strings.Repeat("x", 1000) + `"}}`, "100"},
		"image":                {`{"recipient":{"id":"42"},"message":{"attachment":{"type":"image","payload":{"url":"https://x.test/a.png"}}}}`, ""},
		"uploaded before":      {`{"recipient":{"id":"42"},"message":{"attachment":{"type":"image","payload":{"attachment_id":"5"}}}}`, ""},
		"template":             {`{"recipient":{"id":"42"},"message":{"attachment":{"type":"template","payload":{"template_type":"generic","elements":[]}}}}`, ""},
		"template of no type":  {`{"recipient":{"id":"42"},"message":{"attachment":{"type":"template","payload":{}}}}`, "100"},
		"3 buttons":            {fakeapitest.Buttons("hi", fakeapitest.Button("a", "b"), fakeapitest.Button("a", "b"), fakeapitest.Button("a", "b")), ""},
		"4 buttons":            {fakeapitest.Buttons("hi", fakeapitest.Button("a", "b"), fakeapitest.Button("a", "b"), fakeapitest.Button("a", "b"), fakeapitest.Button("a", "b")), "100"},
		"no buttons":           {fakeapitest.Buttons("hi"), "100"},
		"buttons below 641":    {fakeapitest.Buttons(strings.Repeat("ä", 641), fakeapitest.Button("a", "b")), "100"},
		"buttons below 640":    {fakeapitest.Buttons(strings.Repeat("ä", 640), fakeapitest.Button("a", "b")), ""},
		"buttons below none":   {fakeapitest.Buttons("", fakeapitest.Button("a", "b")), "100"},
		"title of 20":          {fakeapitest.Buttons("hi", fakeapitest.Button(strings.Repeat("ä", 20), "b")), ""},
		"title of 21":          {fakeapitest.Buttons("hi", fakeapitest.Button(strings.Repeat("ä", 21), "b")), "100"},
		"no title":             {fakeapitest.Buttons("hi", fakeapitest.Button("", "b")), "100"},
		"payload of 1000":      {fakeapitest.Buttons("hi", fakeapitest.Button("a", strings.Repeat("b", 1000))), ""},
		"payload of 1001":      {fakeapitest.Buttons("hi", fakeapitest.Button("a", strings.Repeat("b", 1001))), "100"},
		"no payload":           {fakeapitest.Buttons("hi", fakeapitest.Button("a", "")), "100"},
		"button of no type":    {fakeapitest.Buttons("hi", `{"title":"a","payload":"b"}`), "100"},
		"button to an address": {fakeapitest.Buttons("hi", `{"type":"web_url","title":"a","url":"https://x.test/"}`), ""},
		"quick reply, 21":      {fakeapitest.QuickReplies(`{"content_type":"text","title":"` + strings.Repeat("ä", 21) + `","payload":"b"}`), "100"},
		"quick reply, payload": {fakeapitest.QuickReplies(`{"content_type":"text","title":"a"}`), "100"},
		"quick reply, type":    {fakeapitest.QuickReplies(`{"title":"a","payload":"b"}`), "100"},
		"image, quick reply":   {`{"recipient":{"id":"42"},"message":{"attachment":{"type":"image","payload":{"attachment_id":"5"}},"quick_replies":[1]}}`, "100"},
		"quick reply, email":   {fakeapitest.QuickReplies(`{"content_type":"user_email"}`), ""},
		"quick reply, number":  {fakeapitest.QuickReplies(`1`), "100"},
		"unknown attachment":   {`{"recipient":{"id":"42"},"message":{"attachment":{"type":"smell","payload":{"url":"https://x.test/a"}}}}`, "100"},
		"attachment without":   {`{"recipient":{"id":"42"},"message":{"attachment":{"type":"image"}}}`, "100/2018047"},
		"attachment, no host":  {`{"recipient":{"id":"42"},"message":{"attachment":{"type":"image","payload":{"url":"file:///etc/passwd"}}}}`, "100/2018047"},
		"text and attachment":  {`{"recipient":{"id":"42"},"message":{"text":"hi","attachment":{"type":"image","payload":{"url":"https://x.test/a"}}}}`, "100"},
		"typing":               {`{"recipient":{"id":"42"},"sender_action":"typing_on"}`, ""},
		"typing, upper case":   {`{"recipient":{"id":"42"},"sender_action":"TYPING_ON"}`, ""},
		"unknown action":       {`{"recipient":{"id":"42"},"sender_action":"dance"}`, "100"},
		"action with message":  {`{"recipient":{"id":"42"},"sender_action":"typing_on","message":{"text":"hi"}}`, "100"},
		"recipient asks":       {fakeapitest.Text("error-551", "x"), "551"},
		"recipient asks twice": {fakeapitest.Text("error-613-2018338", "x"), "613/2018338"},
		"recipient asks -1":    {fakeapitest.Text("error--1", "x"), "-1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := fakeapitest.New(t, fakeapi.Config{})
			r := a.Post(tc.body)
			e := r.Error(t)
			got := ""
			if e.Code != 0 {
				got = strconv.Itoa(e.Code)
			}
			if e.Subcode != 0 {
				got += "/" + strconv.Itoa(e.Subcode)
			}
			if got != tc.want {
				t.Errorf("send = %d %s, want code %q", r.Status, r.Body, tc.want)
			}
			totals := a.Ledger().Totals()
			accepted := totals.Accepted+totals.Actions == 1
			if accepted != (tc.want == "") {
				t.Errorf("accepted in the ledger = %t, want %t", accepted, tc.want == "")
			}
		})
	}
}

// TestButtonNamesItsField: a button to an address has no payload that could be missing.
func TestButtonNamesItsField(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	for button, field := range map[string]string{`{"type":"web_url","title":"a"}`: "[buttons][0][url]", `{"type":"postback","title":"a"}`: "[buttons][0][payload]"} {
		if e := a.Post(fakeapitest.Buttons("hi", button)).Error(t); !strings.Contains(e.Message, field+" is required") {
			t.Errorf("send of %s = %q, want %s named", button, e.Message, field)
		}
	}
}

func text2(char string, n int) string {
	return `{"recipient":{"id":"42"},"message":{"text":"` + strings.Repeat(char, n) + `"}}`
}

// TestEnvelopes has the envelope of one answer of each kind in full.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	tests := []struct {
		recipient string
		status    int
		want      fakeapitest.Error
	}{
		{"error-613", 400, fakeapitest.Error{Message: "(#613) Calls to this api have exceeded the rate limit.", Type: "OAuthException", Code: 613}},
		{"error-613-1996", 400, fakeapitest.Error{Message: "(#613) Calls to this api have exceeded the rate limit.", Type: "OAuthException", Code: 613, Subcode: 1996}},
		{"error-4", 403, fakeapitest.Error{Message: "(#4) Application request limit reached", Type: "OAuthException", Code: 4, Transient: &yes}},
		{"error-10-2018278", 403, fakeapitest.Error{Message: "(#10) This message is sent outside of allowed window.", Type: "OAuthException", Code: 10, Subcode: 2018278}},
		{"error-551", 400, fakeapitest.Error{Message: "(#551) This person isn't available right now.", Type: "OAuthException", Code: 551}},
		{"error-190", 400, fakeapitest.Error{Message: "Invalid OAuth access token - Cannot parse access token", Type: "OAuthException", Code: 190}},
		{"error-2", 500, fakeapitest.Error{Message: "An unexpected error has occurred. Please retry your request later.", Type: "OAuthException", Code: 2, Transient: &yes}},
		{"error-1-1357046", 500, fakeapitest.Error{Message: "An unknown error occurred", Type: "OAuthException", Code: 1, Subcode: 1357046, Transient: &no}},
		{"error--1", 500, fakeapitest.Error{Message: "Unexpected internal error", Type: "OAuthException", Code: -1, Transient: &yes}},
	}
	a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Text.PerSecond = 10_000 })})
	for _, tc := range tests {
		r := a.Send(tc.recipient, "id")
		got := r.Error(t)
		if len(got.Trace) != 11 {
			t.Errorf("%s: fbtrace_id = %q, want 11 characters", tc.recipient, got.Trace)
		}
		got.Trace = ""
		if diff := cmp.Diff(tc.want, got); diff != "" || r.Status != tc.status {
			t.Errorf("%s: status = %d, want %d; -want +got\n%s", tc.recipient, r.Status, tc.status, diff)
		}
	}
	// A bare 613 has exactly these fields.
	if body := a.Send("error-613", "id").Body; strings.Contains(body, "is_transient") || strings.Contains(body, "error_subcode") {
		t.Errorf("613 = %s, want no is_transient and no error_subcode", body)
	}
}

// TestEveryDocumentedCode: each code of the classes that a client must tell
// apart can be had.
func TestEveryDocumentedCode(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) { s.Text.PerSecond = 10_000 })})
	for code := range strings.FieldsSeq(`613 32 80006 80001 4 17 341 613/1996 613/2018338 613/1893016 4/2018354
		9/2018352 1200 2 1 -1 1/1357046 100/2018001 551 200/1545041 10/2018108 10/2018278 10/2018065 10/2534022
		2018300 2018321 100/2018034 100/2018047 100/2018074 100/2018294 190 102 10 3 200 2/2018344 368 2022 10/1893063`) {
		e := a.Send("error-"+strings.ReplaceAll(code, "/", "-"), "id").Error(t)
		got := strconv.Itoa(e.Code)
		if e.Subcode != 0 {
			got += fmt.Sprintf("/%d", e.Subcode)
		}
		if got != code {
			t.Errorf("send to error-%s = code %s, want %s", code, got, code)
		}
	}
}

// TestBroadcast: the copies of a broadcast are announced by nobody. Each is
// expected once, by the recipient and on the page that its id names.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	a.Send("42", "1/broadcast-B/42")
	a.Send("43", "1/broadcast-B/43")
	a.Send("43", "1/broadcast-B/43/1")
	if got, want := a.Line(), "events 0 expected 3 accepted 3 lost 0 duplicated 0 unexpected 0 excused 0"; got != want {
		t.Errorf("ledger = %s, want %s", got, want)
	}
	a.Send("42", "1/broadcast-B/42")
	a.Send("42", "1/broadcast-C/43")
	a.Send("42", "2/broadcast-C/42")
	a.Send("42", "1/m_1/42")
	if got, want := a.Line(), "events 0 expected 3 accepted 7 lost 0 duplicated 1 unexpected 3 excused 0"; got != want {
		t.Errorf("ledger = %s, want %s", got, want)
	}
}

// TestInstagramText: a text to a person of Instagram has at most 1,000 bytes, of UTF-8.
func TestInstagramText(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(s *fakeapi.Settings) {
		s.Pages = map[string]*fakeapi.PageSettings{"1": {Instagram: true}}
	})})
	for _, row := range []struct {
		page, text string
		code       int
	}{
		{"1", strings.Repeat("x", 1000), 0},
		{"1", strings.Repeat("x", 1001), 100},
		{"1", strings.Repeat("é", 500), 0},
		{"1", strings.Repeat("é", 501), 100},
		{"2", strings.Repeat("é", 2000), 0},
	} {
		body := `{"recipient":{"id":"42"},"message":{"text":"` + row.text + `"}}`
		if e := a.Ask("POST", "/"+row.page+"/messages", body, fakeapitest.Bearer(row.page)).Error(t); e.Code != row.code {
			t.Errorf("text of %d bytes from page %s = code %d %s, want %d", len(row.text), row.page, e.Code, e.Message, row.code)
		}
	}
}
