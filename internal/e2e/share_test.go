package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"chatclub/tools/program"
)

type object = map[string]any

// write posts an event of a user as Messenger does.
func (d *deployment) write(t *testing.T, page, user string, event object) {
	t.Helper()
	now := time.Now().UnixMilli()
	event["sender"], event["recipient"], event["timestamp"] = object{"id": user}, object{"id": page}, now
	d.call(t, d.hook, object{"object": "page", "entry": []object{{"id": page, "time": now, "messaging": []object{event}}}})
}

// call posts a signed body.
func (d *deployment) call(t *testing.T, url string, v any) {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := postSigned(url, string(body)); err != nil || code != http.StatusOK {
		t.Fatalf("POST %s = %d, %v, want 200", url, code, err)
	}
}

// arrival waits for the ids announced as a group, and returns how long the last
// one took.
func (d *deployment) arrival(t *testing.T, group string) (took time.Duration) {
	t.Helper()
	program.Eventually(t, "arrival of "+group, func() error {
		_, body, err := get("http://" + d.fakeAddr + "/ledger/groups")
		if err != nil {
			return err
		}
		var answer struct {
			Groups []struct {
				Group       string
				Completed   int64
				Began, Last time.Time
			}
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			return err
		}
		for _, g := range answer.Groups {
			if g.Group == group && g.Completed == 1 {
				took = g.Last.Sub(g.Began)
				return nil
			}
		}
		return fmt.Errorf("groups: %+v", answer.Groups)
	})
	return took
}

// One member of a full room writes all that it can. What another one writes then
// waits less than 2 s on a quiet machine. Counted by messages alone it would wait
// 50 s behind the long texts, and 300 s behind the albums.
func TestSpamDelaysOthersLittle(t *testing.T) {
	long(t, "TestSpamTakesItsShare of package core has its part")
	t.Parallel()
	const most = 15 * time.Second // for a busy machine
	d := deploy(t, plan{
		pages: 1, rooms: 1, users: 2, eventsPerSecond: 1, chat: time.Second, cores: 1, dispatchers: 1,
		core: map[string]string{"ROOM_CAPACITY": "100"},
	})
	d.settle(t)
	page := d.pageIDs(t)[0]
	before, err := d.totals()
	if err != nil {
		t.Fatal(err)
	}
	user := func(i int) string { return fmt.Sprint(7200000000000000 + i) }
	for i := range 98 {
		d.write(t, page, user(i), object{"postback": object{"title": "Get Started", "payload": "GET_STARTED", "mid": fmt.Sprint("m_join", i)}})
	}
	d.awaitSent(t, before.Accepted+98) // the welcomes
	var album []object
	for i := range 30 {
		album = append(album, object{"type": "image", "payload": object{"url": fmt.Sprint("https://cdn.example/", i)}})
	}
	for i, spam := range []struct {
		name    string
		message object
	}{
		{"nothing", nil},
		{"long texts", object{"text": strings.Repeat("word ", 1900)}},
		{"albums", object{"attachments": album}},
	} {
		began := time.Now()
		for k := range 30 {
			if spam.message != nil {
				spam.message["mid"] = fmt.Sprint("m_spam", i, "_", k)
				d.write(t, page, user(i), object{"message": spam.message})
			}
		}
		took := time.Since(began)
		mid, to := fmt.Sprint("m_hello", i), user(90)
		d.call(t, "http://"+d.fakeAddr+"/ledger/announce", object{"events": []object{{
			"page": page, "group": spam.name, "due": time.Now(), "ids": []object{{"id": page + "/" + mid + "/" + to, "to": to}},
		}}})
		d.write(t, page, user(50), object{"message": object{"mid": mid, "text": "hello"}})
		late := d.arrival(t, spam.name)
		t.Logf("behind %s, written in %v: %v", spam.name, took, late)
		if late > most {
			t.Errorf("another member's message behind %s came after %v, want %v at most", spam.name, late, most)
		}
	}
	got, err := d.totals()
	if err != nil {
		t.Fatal(err)
	}
	checkOrder(t, got, 0)
}
