package sender

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// envelope is an error as the platform words it; extra is further fields.
func envelope(code, subcode int, extra string) string {
	if subcode != 0 {
		extra = fmt.Sprintf(`,"error_subcode":%d%s`, subcode, extra)
	}
	return fmt.Sprintf(`{"error":{"message":"(#%d) Some words.","type":"OAuthException","code":%d%s,"fbtrace_id":"AbCdEf"}}`, code, code, extra)
}

// words is another message of an error.
func words(text string) string { return `,"message":"` + text + `"` }

const (
	yes = `,"is_transient":true`
	no  = `,"is_transient":false`
)

func TestClassifyErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		code, subcode, status int
		extra                 string
		want                  Outcome
	}{
		// Page throttled.
		{613, 0, 400, "", PageThrottled},
		{613, 0, 429, "", PageThrottled},
		{613, 0, 200, "", PageThrottled},
		{613, 0, 500, "", PageThrottled},
		{613, 0, 400, yes, PageThrottled},
		{613, 0, 400, no, PageThrottled},
		{613, 42, 400, "", PageThrottled},
		{32, 0, 400, "", PageThrottled},
		{80006, 0, 400, "", PageThrottled},
		{80001, 0, 400, "", PageThrottled},
		// App throttled.
		{4, 0, 403, "", AppThrottled},
		{4, 0, 400, yes, AppThrottled},
		{4, 42, 403, "", AppThrottled},
		{17, 0, 400, "", AppThrottled},
		{341, 0, 400, "", AppThrottled},
		{613, 1996, 400, "", AppThrottled},
		{613, 1996, 429, yes, AppThrottled},
		// Recipient throttled.
		{613, 2018338, 400, "", RecipientThrottled},
		{613, 2018338, 429, yes, RecipientThrottled},
		{613, 1893016, 400, "", RecipientThrottled},
		{4, 2018354, 403, "", RecipientThrottled},
		{9, 2018352, 400, "", RecipientThrottled},
		// Transient.
		{1200, 0, 400, "", Transient},
		{1200, 0, 500, yes, Transient},
		{2, 0, 400, "", Transient},
		{2, 0, 500, "", Transient},
		{2, 0, 500, no, Transient},
		{1, 0, 400, "", Transient},
		{1, 0, 500, no, Transient},
		{1, 99, 500, no, Transient},
		{-1, 0, 400, "", Transient},
		{100, 0, 400, yes, Transient},
		{190, 0, 400, yes, Transient},
		{551, 0, 400, yes, Transient},
		{10, 0, 400, yes, Transient},
		// In no row: bounded attempts.
		{987654, 0, 400, "", Transient},
		{987654, 0, 400, yes, Transient},
		{987654, 0, 400, no, Transient},
		{987654, 0, 503, "", Transient},
		{9, 0, 400, "", Transient},
		// An attachment that could not be fetched, or not in time: Meta's table of error codes;
		// maciekmm/messenger-platform-go-sdk #36, emes30/facebook_messenger #4.
		{100, 2018008, 400, "", Transient},
		{100, 2018047, 400, "", Transient},
		{100, 2018294, 400, no, Transient},
		{10, 42, 400, "", Transient},
		{200, 42, 403, "", Transient},
		// Delivered all the same.
		{1, 1357046, 500, "", Ambiguous},
		{1, 1357046, 400, yes, Ambiguous},
		// Recipient gone.
		{100, 2018001, 400, "", RecipientGone},
		{100, 2534014, 400, "", RecipientGone}, // Instagram's: Meta's table of error codes; megaapp977/stack #186
		{100, 0, 400, words("(#100) Invalid fbid."), RecipientGone},
		{100, 0, 400, words("(#100) No matching user found"), RecipientGone},       // fbsamples/messenger-platform-samples #11
		{100, 0, 400, words("The requested user cannot be found."), RecipientGone}, // megaapp977/stack #186
		{100, 0, 400, words("(#100) No matching user found") + yes, RecipientGone}, // the words say more than is_transient
		{190, 0, 400, words("(#190) Invalid fbid."), PageStopped},                  // another code
		{100, 2018034, 400, words("(#100) No matching user found"), BadMessage},    // the subcode says more
		{551, 0, 400, "", RecipientGone},
		{551, 1545041, 400, no, RecipientGone},
		{200, 1545041, 403, "", RecipientGone},
		{10, 2018108, 403, "", RecipientGone},
		{200, 2018108, 403, "", RecipientGone},
		{551, 2018108, 400, "", RecipientGone},
		{10, 1545041, 403, "", RecipientGone},
		{10, 1545041, 403, yes, RecipientGone},
		// Window closed.
		{10, 2018278, 400, "", WindowClosed},
		{10, 2018278, 403, "", WindowClosed},
		{10, 2018065, 403, "", WindowClosed},
		{10, 2534022, 403, "", WindowClosed},
		// Thread not ours, below any code and as the code.
		{10, 2018300, 403, "", NotOurs},
		{100, 2018300, 400, "", NotOurs},
		{100, 2018321, 400, "", NotOurs},
		{2018300, 0, 400, "", NotOurs},
		{2018321, 0, 400, "", NotOurs},
		{100, 2534037, 400, "", NotOurs}, // "not the thread owner", of Instagram: Meta's table
		// Bad message.
		{100, 0, 400, "", BadMessage},
		{100, 0, 500, "", BadMessage},
		{100, 0, 400, no, BadMessage},
		{100, 2018034, 400, "", BadMessage},
		{100, 2018074, 400, "", BadMessage},
		{100, 42, 400, "", BadMessage},
		{100, 2534015, 400, "", BadMessage}, // "invalid message data": Meta's table
		// The content of the message: fbsamples/original-coast-clothing #67, facebookarchive/php-graph-sdk #528.
		{368, 1346003, 400, "", BadMessage},
		{368, 1346003, 400, yes, BadMessage},
		{368, 0, 400, words("Your message couldn't be sent because it includes content that other people on Facebook have reported as abusive."), BadMessage},
		{368, 0, 403, words("The link was blocked from being shared."), BadMessage},
		{368, 0, 400, words("(#368) http://spam.example/x cannot be sent. See https://www.facebook.com/help."), BadMessage},
		// Page stopped.
		{190, 0, 400, "", PageStopped},
		{190, 0, 401, "", PageStopped},
		{190, 463, 400, "", PageStopped},
		{102, 0, 400, "", PageStopped},
		{10, 0, 400, "", NotAllowed},
		{10, 0, 403, no, NotAllowed},
		{3, 0, 400, "", PageStopped},
		{200, 0, 403, "", NotAllowed},
		{2, 2018344, 400, "", PageStopped},
		{2, 2018344, 500, "", PageStopped},
		// Page stopped, though the code is that of a bad message.
		{100, 0, 400, `,"type":"GraphMethodException"`, PageStopped},
		{100, 33, 400, `,"type":"GraphMethodException"`, PageStopped},
		{100, 0, 400, yes + `,"type":"GraphMethodException"`, Transient},
		{100, 2018001, 400, `,"type":"GraphMethodException"`, RecipientGone},
		{2, 0, 500, `,"type":"GraphMethodException"`, Transient},
		// The same in words alone: facebookarchive/php-graph-sdk #1233, facebook/facebook-for-woocommerce #657.
		{100, 0, 400, words("(#100) Object does not exist, cannot be loaded due to missing permission or reviewable feature, or does not support this operation."), PageStopped},
		{100, 0, 400, words("Unsupported post request. Object with ID '1' does not exist, cannot be loaded due to missing permissions."), PageStopped},
		{100, 0, 400, words("Unsupported post request.") + yes, Transient},
		{100, 0, 400, words("(#100) Attachment does not exist"), BadMessage},
		{100, 2018074, 400, words("(#100) Object does not exist"), BadMessage},
		// Of Instagram: no account is linked, its owner took the access away. Meta's table.
		{100, 2534013, 400, "", PageStopped},
		{200, 2534041, 403, "", PageStopped},
		// Page stopped for a time.
		{368, 0, 400, "", PageStoppedForATime},
		{368, 1390008, 400, no, PageStoppedForATime},
		{368, 1390008, 400, words("We limit how often you can share content."), PageStoppedForATime}, // the subcode says more
		{368, 0, 400, words("The action attempted has been deemed abusive or is otherwise disallowed."), PageStoppedForATime},
		{368, 0, 400, words("You are blocked. Learn more: https://www.facebook.com/help/1"), PageStoppedForATime},
		{368, 0, 400, words("Your account is restricted: its content was reported as abusive."), PageStoppedForATime},
		{100, 2534029, 400, "", PageStoppedForATime}, // "blocked from sending", of Instagram: Meta's table
		{2022, 0, 400, "", PageStoppedForATime},
		{10, 1893063, 403, "", PageStoppedForATime},
	}
	for _, tt := range tests {
		name := fmt.Sprintf("%d/%d http %d%s", tt.code, tt.subcode, tt.status, tt.extra)
		got := Classify(tt.status, []byte(envelope(tt.code, tt.subcode, tt.extra)))
		if got.Outcome != tt.want {
			t.Errorf("Classify(%s).Outcome = %v, want %v", name, got.Outcome, tt.want)
		}
		if got.Code != tt.code || got.Subcode != tt.subcode || got.Status != tt.status {
			t.Errorf("Classify(%s) = code %d/%d status %d", name, got.Code, got.Subcode, got.Status)
		}
		if got.Err == nil || got.MessageID != "" {
			t.Errorf("Classify(%s) = err %v, message id %q, want an error and no id", name, got.Err, got.MessageID)
		}
	}
}

func TestClassifyBodies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		status   int
		body     string
		want     Outcome
		id, code string
	}{
		{"accepted", 200, `{"recipient_id":"1","message_id":"m_1"}`, Sent, "m_1", ""},
		{"accepted with an unknown field", 200, ` {"message_id":"m_1","x":[{}]}`, Sent, "m_1", ""},
		{"accepted, recipient id of another type", 200, `{"recipient_id":1,"message_id":"m_1"}`, Sent, "m_1", ""},
		{"accepted, with an error beside", 200, `{"message_id":"m_1","error":{"code":2}}`, Sent, "m_1", ""},
		{"accepted without id", 200, `{"recipient_id":"1"}`, Sent, "", ""},
		{"accepted, id of another type", 200, `{"message_id":5}`, Sent, "", ""},
		{"accepted, cut off", 200, `{"recipient_id":"1","mess`, Sent, "", ""},
		{"accepted, cut off behind the id", 200, `{"message_id":"m_1","x`, Sent, "", ""},
		{"accepted, nothing readable", 200, ``, Sent, "", ""},
		{"another success", 202, ``, Sent, "", ""},
		{"a proxy's page", 200, "<html>log in</html>", Transient, "", "http 200"},
		{"a text", 200, "ok", Transient, "", "http 200"},
		{"an error without code, with 200", 200, `{"error":{"message":"x"}}`, Transient, "", "http 200"},
		{"an error with 200", 200, envelope(190, 0, ""), PageStopped, "", "190"},
		{"a message id with 500", 500, `{"message_id":"m_1"}`, Transient, "", "http 500"},
		{"gateway", 502, "<html>Bad Gateway</html>", Transient, "", "http 502"},
		{"no body", 503, "", Transient, "", "http 503"},
		{"not found", 404, "not found", Transient, "", "http 404"},
		{"a proxy's throttle", 429, "slow down", Transient, "", "http 429"},
		{"redirect", 302, "", Transient, "", "http 302"},
		{"error cut off", 400, `{"error":{"code":190,"mess`, Transient, "", "http 400"},
		{"error as text", 400, `{"error":"no"}`, Transient, "", "http 400"},
		{"code as text", 400, `{"error":{"code":"190"}}`, PageStopped, "", "190"},
		{"code and subcode as texts", 400, `{"error":{"code":"100","error_subcode":"2018001"}}`, RecipientGone, "", "100/2018001"},
		{"code as words", 400, `{"error":{"code":"x190"}}`, Transient, "", "http 400"},
		{"code as a list", 400, `{"error":{"code":[190]}}`, Transient, "", "http 400"},
		{"code as null", 400, `{"error":{"code":null}}`, Transient, "", "http 400"},
		{"code beyond all bounds", 400, `{"error":{"code":"99999999999999999999"}}`, Transient, "", "http 400"},
		{"subcode of another type", 400, `{"error":{"code":613,"error_subcode":"x"}}`, PageThrottled, "", "613"},
		{"is_transient of another type", 400, `{"error":{"code":190,"is_transient":"x"}}`, PageStopped, "", "190"},
		{"list", 400, `[]`, Transient, "", "http 400"},
		{"null", 400, `null`, Transient, "", "http 400"},
		{"only a subcode", 400, `{"error":{"error_subcode":2018300}}`, NotOurs, "", "0/2018300"},
		{"pair", 400, envelope(613, 2018338, ""), RecipientThrottled, "", "613/2018338"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Classify(tt.status, []byte(tt.body))
			if got.Outcome != tt.want || got.MessageID != tt.id || got.CodeString() != tt.code {
				t.Errorf("Classify(%d, %s) = %v, id %q, %q, want %v, id %q, %q", tt.status, tt.body,
					got.Outcome, got.MessageID, got.CodeString(), tt.want, tt.id, tt.code)
			}
			if (got.Err == nil) != (tt.want == Sent) {
				t.Errorf("Classify(%d, %s).Err = %v with outcome %v", tt.status, tt.body, got.Err, got.Outcome)
			}
		})
	}
}

func TestClassifyErrorHoldsNoPlatformText(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"Malformed access token SECRET","type":"OAuthException","code":190,"fbtrace_id":"Trace1"}}`
	got := Classify(400, []byte(body)).Err.Error()
	const want = `send api answered 190 (http 400, type "OAuthException", trace "Trace1")`
	if got != want {
		t.Errorf("Classify(190).Err = %s, want %s", got, want)
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(200, `{"recipient_id":"1","message_id":"m_1"}`)
	f.Add(200, `{"recipient_id":"","message_id":"a\u0062"}`)
	f.Add(200, `{"recipient_id":"1","message_id":"m_1","message_id":"m_2"}`)
	f.Add(400, envelope(613, 0, ""))
	f.Add(500, envelope(2, 2018344, yes))
	f.Add(200, `{"error":null,"message_id":"`)
	f.Add(502, "<html>")
	f.Add(-1, `{"error":{"code":-9223372036854775808}}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		r := Classify(status, []byte(body))
		switch {
		case !slices.Contains(Outcomes(), r.Outcome) || r.Outcome == Canceled:
			t.Errorf("Classify outcome = %v", r.Outcome)
		case r.Outcome == Sent && (status < 200 || status > 299 || r.Err != nil || r.CodeString() != ""):
			t.Errorf("Classify(%d) = Sent, err %v, code %q", status, r.Err, r.CodeString())
		case r.Outcome != Sent && (r.Err == nil || r.MessageID != ""):
			t.Errorf("Classify(%d) = %v, err %v, message id %q", status, r.Outcome, r.Err, r.MessageID)
		case r.Outcome != Sent && status != 0 && r.CodeString() == "":
			t.Errorf("Classify(%d) = %v without a code string", status, r.Outcome)
		case r.Err != nil && (len(r.Err.Error()) > 1000 || strings.ContainsAny(r.Err.Error(), "\n\r")):
			t.Errorf("Classify err = %q, want one short line", r.Err)
		}
	})
}
