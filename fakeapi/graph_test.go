package fakeapi_test

import (
	"net/http"
	"strings"
	"testing"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
)

// A bot's set-up calls are answered as documented, each page has its own, and they
// cost nothing of a limit.
func TestGraph(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	for _, step := range []struct{ method, path, body, page, want string }{
		{"GET", "/v23.0/4242?fields=first_name,last_name", "", "1", `{"first_name":"Person","id":"4242","last_name":"4242","profile_pic":"https://platform-lookaside.fbsbx.com/4242"}`},
		{"GET", "/v23.0/me/messenger_profile?fields=greeting,get_started", "", "1", `{"data":[]}`},
		{"POST", "/v23.0/me/messenger_profile", `{"get_started":{"payload":"GO"},"greeting":[{"locale":"default","text":"hi"}]}`, "1", `{"result":"success"}`},
		{"GET", "/v23.0/1/messenger_profile?fields=get_started", "", "1", `{"data":[{"get_started":{"payload":"GO"}}]}`},
		{"GET", "/v23.0/me/messenger_profile?fields=get_started", "", "2", `{"data":[]}`},
		{"DELETE", "/v23.0/me/messenger_profile", `{"fields":["get_started"]}`, "1", `{"result":"success"}`},
		{"GET", "/v23.0/me/messenger_profile?fields=get_started,greeting", "", "1", `{"data":[{"greeting":[{"locale":"default","text":"hi"}]}]}`},
		{"POST", "/v23.0/1/subscribed_apps?subscribed_fields=messages,messaging_postbacks", "", "1", `{"success":true}`},
		{"GET", "/v23.0/1/subscribed_apps", "", "1", `{"data":[{"category":"Messenger bots","id":"1","name":"bot","subscribed_fields":["messages","messaging_postbacks"]}]}`},
		{"DELETE", "/v23.0/1/subscribed_apps", "", "1", `{"success":true}`},
		{"GET", "/v23.0/1/subscribed_apps", "", "1", `{"data":[]}`},
	} {
		r := a.Ask(step.method, step.path, step.body, fakeapitest.Bearer(step.page))
		if got := strings.TrimSpace(r.Body); r.Status != http.StatusOK || got != step.want {
			t.Errorf("%s %s = %d %s, want %s", step.method, step.path, r.Status, got, step.want)
		}
	}
	for path, code := range map[string]int{"/v23.0/2/messenger_profile": 190, "/v23.0/me/messenger_profile": 100} {
		if got := a.Ask("POST", path, "{}", fakeapitest.Bearer("1")).Error(t).Code; got != code {
			t.Errorf("POST %s = code %d, want %d", path, got, code)
		}
	}
	if n := a.API.Ledger().Totals(); n.Calls != 0 || n.Refused != 0 {
		t.Errorf("ledger = %+v, want no send", n)
	}
}
