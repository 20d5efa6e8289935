package webhook

import (
	"encoding/json"
	"testing"
	"time"
)

func TestBody(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	e := Event{Page: "1", User: "42", At: at}
	text, postback, echo, image, delivery, read, pictures, tap := e, e, e, e, e, e, e, e
	text.MID, text.Text = "m_a-b_c", "Grüße / 100 % <b> a@b \"\\\n🎉"
	postback.MID, postback.Payload, postback.Title = "m_2", "GET_STARTED", "Get Started"
	echo.Echo = &Echo{MID: "m_1", Metadata: "1/m/42", Text: "hi"}
	image.Echo = &Echo{MID: "m_2", Metadata: "1/m/43", Type: "image", URL: "https://x.test/a"}
	delivery.Delivered = []string{"m_1", "m_2"}
	read.Read = true
	pictures.MID, pictures.Pictures = "m_3", []string{"https://x.test/a?b=%2F", "https://x.test/b"}
	tap.MID, tap.Text, tap.QuickReply = "m_4", "Rooms", "/rooms"

	const fromUser = `{"sender":{"id":"42"},"recipient":{"id":"1"},"timestamp":1700000000123,`
	const fromPage = `{"sender":{"id":"1"},"recipient":{"id":"42"},"timestamp":1700000000123,`
	list := []struct {
		event Event
		want  string
	}{
		{text, fromUser + `"message":{"mid":"m_a-b_c","text":"Gr\u00fc\u00dfe \/ 100 \u0025 \u003Cb> a\u0040b \"\\\n\ud83c\udf89"}}`},
		{postback, fromUser + `"postback":{"mid":"m_2","title":"Get Started","payload":"GET_STARTED"}}`},
		{echo, fromPage + `"message":{"mid":"m_1","is_echo":true,"app_id":200000000000001,"metadata":"1\/m\/42","text":"hi"}}`},
		{image, fromPage + `"message":{"mid":"m_2","is_echo":true,"app_id":200000000000001,"metadata":"1\/m\/43",` +
			`"attachments":[{"type":"image","payload":{"url":"https:\/\/x.test\/a"}}]}}`},
		{delivery, fromUser + `"delivery":{"mids":["m_1","m_2"],"watermark":1700000000123}}`},
		{read, fromUser + `"read":{"watermark":1700000000123}}`},
		{pictures, fromUser + `"message":{"mid":"m_3","attachments":[{"type":"image","payload":{"url":"https:\/\/x.test\/a?b=\u00252F"}},` +
			`{"type":"image","payload":{"url":"https:\/\/x.test\/b"}}]}}`},
		{tap, fromUser + `"message":{"mid":"m_4","text":"Rooms","quick_reply":{"payload":"\/rooms"}}}`},
	}
	var all []Event
	together, split := "", ""
	const entry = `{"id":"1","time":1700000001123,"messaging":[`
	for i, tc := range list {
		all = append(all, tc.event)
		if i > 0 {
			together, split = together+",", split+","
		}
		together += tc.want
		split += entry + tc.want + `]}`
	}
	for _, tc := range []struct {
		split bool
		want  string
	}{{false, `{"object":"page","entry":[` + entry + together + `]}]}`}, {true, `{"object":"page","entry":[` + split + `]}`}} {
		got := string(bodyOf(&Post{Events: all, Split: tc.split}, at.Add(time.Second)))
		if got != tc.want || !json.Valid([]byte(got)) {
			t.Errorf("body(split %t) = %s\n want %s", tc.split, got, tc.want)
		}
	}
}

// TestInstagramBody: the object is another, echoes do not tell who sent them, and what
// was read is told by its id.
func TestInstagramBody(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	e := Event{Page: "1", User: "42", At: at}
	text, echo, read := e, e, e
	text.MID, text.Text = "m_1", "hi"
	echo.Echo = &Echo{MID: "m_2", Metadata: "1/m/42", Text: "hello"}
	read.Read, read.MID = true, "m_2"
	got := string(bodyOf(&Post{Events: []Event{text, echo, read}, Instagram: true}, at))
	want := `{"object":"instagram","entry":[{"id":"1","time":1700000000123,"messaging":[` +
		`{"sender":{"id":"42"},"recipient":{"id":"1"},"timestamp":1700000000123,"message":{"mid":"m_1","text":"hi"}},` +
		`{"sender":{"id":"1"},"recipient":{"id":"42"},"timestamp":1700000000123,"message":{"mid":"m_2","is_echo":true,"text":"hello"}},` +
		`{"sender":{"id":"42"},"recipient":{"id":"1"},"timestamp":1700000000123,"read":{"mid":"m_2"}}]}]}`
	if got != want {
		t.Errorf("body = %s\n want %s", got, want)
	}
}

// TestSign compares with a signature computed by openssl.
func TestSign(t *testing.T) {
	t.Parallel()
	const want = "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
	const old = "sha1=de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9"
	got, legacy := sign("key", []byte("The quick brown fox jumps over the lazy dog"))
	if got != want || legacy != old {
		t.Errorf("sign = %s, %s, want %s, %s", got, legacy, want, old)
	}
}
