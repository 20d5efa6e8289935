package webhook

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
)

// With all set every item becomes an event that has Messenger's JSON, and those that
// core knows are the same otherwise.
func TestSplitAll(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1763600000007)
	for _, row := range []struct {
		item string
		kind message.Kind
	}{
		{`{"sender":{"id":"2"},"timestamp":1763600000001,"referral":{"ref":"x","source":"SHORTLINK","type":"OPEN_THREAD"}}`, message.KindOther},
		{`{"sender":{"id":"2"},"optin":{"type":"one_time_notif_req"}}`, message.KindOther},
		{`{"optin":{"user_ref":"r"}}`, message.KindOther}, // of nobody who is known
		{`{"sender":{"id":"2"},"reaction":{"reaction":"love","mid":"m"}}`, message.KindOther},
		{`{"sender":{"id":"2"},"read":{"watermark":1}}`, message.KindOther},
		{`{"sender":{"id":"2"},"delivery":{"mids":["m"]}}`, message.KindOther},
		{`{"sender":{"id":"2"},"account_linking":{"status":"linked"}}`, message.KindOther},
		{`{"sender":{"id":"2"},"pass_thread_control":{"new_owner_app_id":"1"}}`, message.KindOther},
		{`{"sender":{"id":"1"},"message":{"mid":"m","is_echo":true,"text":"ours"}}`, message.KindOther},
		{`{"sender":{"id":"2"},"message":{"mid":"m","is_deleted":true}}`, message.KindOther},
		{`{"sender":{"id":"2"},"message":{"mid":"m_1","text":"hi","referral":{"ref":"x"}}}`, message.KindMessage},
		{`{"sender":{"id":"2"},"message":{"mid":"m_2","attachments":[{"type":"location","payload":{"coordinates":{"lat":1,"long":2}}}]}}`, message.KindMessage},
		{`{"sender":{"id":"2"},"postback":{"mid":"m_3","payload":"p","referral":{"ref":"x"}}}`, message.KindPostback},
	} {
		body := []byte(onPage(row.item))
		p, err := Split(body, now, true)
		if err != nil || len(p.Events) != 1 || len(p.Bad) > 0 || len(p.Skipped) > 0 {
			t.Errorf("Split(%s) = %+v, %v, want one event", row.item, p, err)
			continue
		}
		e := p.Events[0]
		if e.Kind != row.kind || string(e.Raw) != row.item || e.ID == "" || e.Page == "" {
			t.Errorf("Split(%s) = %+v, want kind %s with what was sent", row.item, e, row.kind)
		}
		encoded, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := message.DecodeEvent(encoded); err != nil {
			t.Errorf("DecodeEvent(%s) = %v, want nil", encoded, err)
		}
		if again, _ := Split(body, now, true); again.Events[0].ID != e.ID {
			t.Errorf("the same again has the id %q, want %q", again.Events[0].ID, e.ID)
		}
		p, err = Split(body, now, false)
		switch {
		case err != nil || row.kind == message.KindOther && len(p.Events) != 0:
			t.Errorf("Split(%s) = %+v, %v, want no event", row.item, p.Events, err)
		case row.kind != message.KindOther:
			if e.Raw = nil; len(p.Events) != 1 || asJSON(t, p.Events[0]) != asJSON(t, e) {
				t.Errorf("Split(%s) = %+v, want %+v", row.item, p.Events, e)
			}
		}
	}
}

// The ids of what cannot be decoded say whether all is passed on.
func TestUndecodableOfAll(t *testing.T) {
	t.Parallel()
	for all, prefix := range map[bool]string{true: UndecodableAll, false: Undecodable} {
		f := setup(t, func(c *Config) { c.All = all })
		f.postSigned(`{"object":"page","entry":7}`)
		if dead := f.published.on("test.dead"); len(dead) != 1 || len(dead[0].ID) != len(prefix)+32 || !strings.HasPrefix(dead[0].ID, prefix) {
			t.Errorf("with All %v dead has %v, want one with an id of %s", all, dead, prefix)
		}
	}
}

func asJSON(t *testing.T, e message.Event) string {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Events of a conversation that another app owns are marked.
func TestSplitAllStandby(t *testing.T) {
	t.Parallel()
	body := `{"object":"page","entry":[{"id":"1","time":1763600000001,"standby":[{"sender":{"id":"2"},"message":{"mid":"m","text":"hi"}},7]}]}`
	p, err := Split([]byte(body), time.UnixMilli(1763600000007), true)
	if err != nil || len(p.Events) != 1 || p.Events[0].Action != "standby" || p.Events[0].Kind != message.KindOther || !strings.Contains(string(p.Events[0].Raw), `"text":"hi"`) {
		t.Errorf("Split(standby) = %+v, %v, want one event of another app's", p.Events, err)
	}
	if p.Skipped[SkipStandby] != 1 {
		t.Errorf("%d of standby are skipped, want the one that is none", p.Skipped[SkipStandby])
	}
}
