package web_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi/fakeapitest"
)

// TestPhonesTap: buttons are tapped as in Messenger. A button of a template is a
// postback and stays. A quick reply is a message and is gone with the next one.
func TestPhonesTap(t *testing.T) {
	t.Parallel()
	withPhones(t, asIs, func(p *phones) {
		p.must("POST", "/phones/1/start", "") // messages 1 and 2
		user := p.phone("1").User
		give := func(body string) {
			t.Helper()
			if r := p.api.Ask("POST", "/1/messages", strings.Replace(body, `"42"`, `"`+user+`"`, 1), fakeapitest.Bearer("1")); r.Status != 200 {
				t.Fatalf("send = %d %s, want 200", r.Status, r.Body)
			}
		}
		refused := func(body string, want int) {
			t.Helper()
			if r := p.ask("POST", "/phones/1/taps", body); r.Status != want || !strings.Contains(r.Body, `{"error":"`) {
				t.Errorf("tap %s = %d %s, want %d and an error", body, r.Status, r.Body, want)
			}
		}
		taps := func(want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, p.bot.Taps()); diff != "" {
				t.Errorf("taps at the webhook: -want +got\n%s", diff)
			}
		}
		p.bot.Taps()

		jazz, rock := fakeapitest.QuickReply("jazz <b>", "/join jazz"), fakeapitest.QuickReply("rock", "/join rock")
		give(fakeapitest.QuickReplies(jazz, rock, `{"content_type":"user_email"}`)) // message 3
		refused(`{"message":3,"button":2}`, 404)                                    // a phone has no e-mail address
		refused(`{"message":2,"button":0}`, 404)
		refused(`{"message":9,"button":0}`, 404)
		refused(`{"message":3,"button":-1}`, 404)
		refused(`{"message":3}`, 404)
		refused(`{"message":3,"button":0,"x":1}`, 400)
		p.must("POST", "/phones/1/taps", `{"message":3,"button":1}`) // 4
		taps("message rock /join rock")
		refused(`{"message":3,"button":0}`, 409) // it is gone

		rooms := fakeapitest.Button("Rooms", "/rooms")
		give(fakeapitest.Buttons("choose", rooms, `{"type":"web_url","title":"Site","url":"https://x.test/"}`)) // 5
		give(fakeapitest.QuickReplies(fakeapitest.QuickReply("late", "/late")))                                 // 6
		give(fakeapitest.Text(user, ""))                                                                        // 7
		refused(`{"message":6,"button":0}`, 409)
		p.must("POST", "/phones/1/taps", `{"message":5,"button":0}`)
		p.must("POST", "/phones/1/taps", `{"message":5,"button":0}`)
		refused(`{"message":5,"button":1}`, 409)
		taps("postback Rooms /rooms", "postback Rooms /rooms")
		if f := p.phone("1"); !strings.HasPrefix(f.talk(), "Get Started(sent), welcome, which?, rock(sent), choose, which?, ") {
			t.Errorf("conversation = %s, want every message in its order", f.talk())
		}

		p.must("POST", "/phones/1/leave", "")
		refused(`{"message":5,"button":0}`, 409)
		if r := p.ask("POST", "/phones/9/taps", `{"message":5,"button":0}`); r.Status != 404 {
			t.Errorf("tap on a phone that is not there = %d, want 404", r.Status)
		}
	})
}
