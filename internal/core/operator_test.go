package core

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
)

// ask makes a request of an operator; the answer is its status and body.
func (r *rig) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.core.Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func (r *rig) wantAnswer(t *testing.T, method, path, body string, status int, want string) {
	t.Helper()
	got, answer := r.ask(t, method, path, body)
	if got != status {
		t.Errorf("%s %s %s = %d %s, want %d", method, path, body, got, answer, status)
	}
	if diff := cmp.Diff(want, answer); diff != "" && want != "…" {
		t.Errorf("%s %s %s: -want +got\n%s", method, path, body, diff)
	}
}

// now is a message of this moment.
func now(user, id, words string) message.Event {
	ev := text(user, id, words)
	ev.Time = time.Now().UnixMilli()
	return ev
}

func TestViews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.wantAnswer(t, "GET", "/pages", "", 503, `{"error":"the database does not answer"}`)
		r.say(t, now("1", "a", "hello"), now("2", "b", "hi"), now("3", "c", "/join x"), now("1", "d", "/report guest 2"))
		r.handled(t) // and counts
		r.wantAnswer(t, "GET", "/pages", "", 200, `{"pages":[{"page":"p","rooms":2,"members":3,"audience":3,"messages_per_hour":2,`+
			`"copies_per_hour":5,"copies_24h":5,"quota_24h":600,"quota_share":0.0083,"paused":false}]}`)
		r.wantAnswer(t, "GET", "/pages?after=p", "", 200, `{"pages":[]}`)
		r.wantAnswer(t, "GET", "/rooms?page=p", "", 200, `{"page":"p","rooms":[`+
			`{"room":1,"members":2,"messages_per_hour":2,"copies_per_hour":4,"opened":"2000-01-01T00:00:00Z"},`+
			`{"room":2,"code":"x","members":1,"messages_per_hour":0,"copies_per_hour":1,"opened":"2000-01-01T00:00:00Z"}]}`)
		r.wantAnswer(t, "GET", "/reports?page=p", "", 200,
			`{"page":"p","reports":[{"reporter":"1","accused":"2","name":"Guest 2","room":1,"times":1,"at":"2000-01-01T00:00:00Z"}]}`)
		r.say(t, now("2", "j", "/report guest 1"))
		r.handled(t)
		r.wantAnswer(t, "GET", "/reports?page=p&limit=1", "", 200, `{"next":"946684800000/j","page":"p","reports":[`+
			`{"reporter":"2","accused":"1","name":"Guest 1","room":1,"times":1,"at":"2000-01-01T00:00:00Z"}]}`)
		r.wantAnswer(t, "GET", "/reports?page=p&after=946684800000/j", "", 200, `{"page":"p","reports":[`+
			`{"reporter":"1","accused":"2","name":"Guest 2","room":1,"times":1,"at":"2000-01-01T00:00:00Z"}]}`)

		r.wantAnswer(t, "POST", "/pages/p/pause", `{"for":"1h","reason":"spam"}`, 204, "")
		if _, answer := r.ask(t, "GET", "/pages", ""); !strings.Contains(answer,
			`"paused":true,"paused_until":"2000-01-01T01:00:00Z","pause_reason":"operator: spam"`) {
			t.Errorf("GET /pages of a paused page = %s", answer)
		}
		r.sent(t)
		r.say(t, now("1", "e", "nobody hears"))
		r.handled(t)
		wantSent(t, "of a paused page", r.sent(t))
		time.Sleep(time.Second)
		r.wantAnswer(t, "POST", "/pages/p/resume", "", 204, "")
		r.wantAnswer(t, "POST", "/pages/p/resume", "", 404, `{"error":"page: unknown or not paused"}`)

		r.wantAnswer(t, "POST", "/pages/p/users/2/ban", `{"for":"24h"}`, 204, "")
		r.say(t, now("2", "f", "am I banned?"), now("2", "g", "still?"), now("1", "h", "alone"))
		r.handled(t)
		wantSent(t, "of a banned user and to it", r.sent(t), "2: You may not write here for 1 d.")
		r.wantAnswer(t, "DELETE", "/pages/p/users/2/ban", "", 204, "")
		r.say(t, now("2", "i", "free"))
		r.handled(t)
		if got := r.sent(t); len(got) != 2 || got[1] != "1: Guest 2: free" {
			t.Errorf("copies after the ban = %q, want a welcome and one copy", got)
		}
	})
}

// TestWrongRequests: each is told which field is wrong.
func TestWrongRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.core.cfg.Limit = func(string) float64 { return 300 }
		r.say(t, now("1", "a", "hello"))
		r.handled(t)
		for _, tt := range []struct {
			method, path, body string
			status             int
			field              string
		}{
			{"GET", "/pages?limit=x", "", 400, "limit"},
			{"GET", "/pages?limit=0", "", 400, "limit"},
			{"GET", "/pages?after=%00", "", 400, "after"},
			{"GET", "/rooms", "", 400, "page"},
			{"GET", "/rooms?page=%ff", "", 400, "page"},
			{"GET", "/rooms?page=" + strings.Repeat("p", 513), "", 400, "page"},
			{"GET", "/reports?page=a%1fb", "", 400, "page"},
			{"POST", "/pages/%00/pause", `{"for":"1h"}`, 400, "page"},
			{"POST", "/pages/%ff/resume", ``, 400, "page"},
			{"POST", "/pages/p/pause", `{"reason":"` + strings.Repeat("x", 503) + `"}`, 400, "reason"},
			{"POST", "/pages/p/pause", `{"reason":"a\u0000b"}`, 400, "reason"},
			{"DELETE", "/pages/p/users/a%00b/ban", "", 400, "psid"},
			{"POST", "/broadcast", `{"page":"\u0000","text":"x"}`, 400, "page"},
			{"GET", "/rooms?page=p&after=-1", "", 400, "after"},
			{"GET", "/reports", "", 400, "page"},
			{"GET", "/reports?page=p&after=x", "", 400, "after"},
			{"POST", "/pages/typo/resume", "", 404, ""},
			{"POST", "/pages/p/pause", `{"for":"soon"}`, 400, "for"},
			{"POST", "/pages/p/pause", `{"why":"x"}`, 400, "body"},
			{"POST", "/pages/p/users/1/ban", ``, 400, "for"},
			{"POST", "/pages/p/users/1/ban", `{"for":"-1h"}`, 400, "for"},
			{"POST", "/pages/p/users/1/ban", `{"for":"1h","forever":true}`, 400, "for"},
			{"POST", "/pages/p/users/1/ban", `{"forever":"yes"}`, 400, "forever"},
			{"POST", "/pages/p/users/9/ban", `{"forever":true}`, 404, ""},
			{"POST", "/broadcast", `{`, 400, "body"},
			{"POST", "/broadcast", `{"text":"x"}`, 400, "page"},
			{"POST", "/broadcast", `{"page":"p","text":" \u0000 "}`, 400, "text"},
			{"POST", "/broadcast", `{"page":"p","text":"x","room":-1}`, 400, "room"},
			{"POST", "/broadcast", `{"page":"p","text":"x","room":"one"}`, 400, "room"},
			{"POST", "/broadcast", `{"page":"p","text":"x","rate":-1}`, 400, "rate"},
			{"POST", "/broadcast", `{"page":"p","text":"x","rate":301}`, 400, "rate"},
			{"POST", "/broadcast", `{"page":"p","text":"x","deadline":"1999-01-01T00:00:00Z"}`, 400, "deadline"},
			{"POST", "/broadcast", `{"page":"p","text":"x","deadline":"2000-01-03T00:00:00Z"}`, 400, "deadline"},
			{"POST", "/broadcast", `{"page":"p","text":"x","rate":0.001,"deadline":"2000-01-01T00:01:00Z"}`, 400, "deadline"},
			{"POST", "/broadcast", `{"page":"p","text":"x","rate":1e-300}`, 400, "deadline"},
			{"POST", "/broadcast", `{"page":"p","text":"x","id":"a/b"}`, 400, "id"},
			{"POST", "/broadcast", `{"page":"p","text":"x","id":".."}`, 400, "id"},
			{"POST", "/broadcast", `{"page":"p","text":"x","after":"1"}`, 400, "body"},
			{"GET", "/broadcasts?limit=0", "", 400, "limit"},
			{"GET", "/broadcasts/none", "", 404, ""},
			{"DELETE", "/broadcasts/none", "", 404, ""},
			{"POST", "/broadcast", `{"page":"q","text":"x"}`, 404, ""},
			{"POST", "/broadcast", `{"page":"p","room":7,"text":"x"}`, 404, ""},
			{"POST", "/broadcast", `{"page":"p","text":"` + strings.Repeat("x", maxRequest) + `"}`, 400, "body"},
		} {
			status, answer := r.ask(t, tt.method, tt.path, tt.body)
			field := `"field":"` + tt.field + `"`
			if status != tt.status || tt.field != "" && !strings.Contains(answer, field) || !strings.Contains(answer, `"error":`) {
				t.Errorf("%s %s %.60s = %d %s, want %d that names %q", tt.method, tt.path, tt.body, status, answer, tt.status, tt.field)
			}
		}
		r.wantAnswer(t, "GET", "/broadcasts", "", 200, `{"broadcasts":[]}`)
		if _, answer := r.ask(t, "GET", "/pages", ""); strings.Contains(answer, "typo") {
			t.Errorf("GET /pages after a slip of the pen = %s, want no such page", answer)
		}
	})
}

// TestIdleLeaves: a silent member leaves once, with a notice, however many
// cores look for it.
func TestIdleLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newIdleRig(t, newBroker(t), time.Hour)
		r.core.caster.every = time.Hour
		r.say(t, now("1", "a", "hello"), now("2", "b", "hi"))
		stop := r.start(t)
		synctest.Wait()
		r.sent(t)
		time.Sleep(30 * time.Minute)
		r.say(t, now("1", "c", "awake"))
		time.Sleep(31 * time.Minute)
		wantSent(t, "after an hour", r.sent(t),
			"2: Guest 1: awake", "2: You have been silent for 1 h and have left room 1. Write anything to come back.")
		time.Sleep(time.Hour)
		wantSent(t, "after another", r.sent(t), "1: You have been silent for 1 h and have left room 1. Write anything to come back.")
		if err := stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		r.wantMetrics(t, `
			# HELP chatclub_core_idle_total Members told that they left a room because they were silent.
			# TYPE chatclub_core_idle_total counter
			chatclub_core_idle_total 2
		`, "chatclub_core_idle_total")
	})
}
