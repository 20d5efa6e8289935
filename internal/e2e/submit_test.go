package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"chatclub/tools/program"
)

// TestKilledPort: a dispatcher is killed while it takes messages by HTTP. The bot cannot
// know which of its lists are on the queue, and posts all of them to another dispatcher:
// every message is sent once.
func TestKilledPort(t *testing.T) {
	t.Parallel()
	d := own(t)
	page := d.pageIDs(t)[0]
	owner := d.dispatchers[0]
	post := func(to *process, body string) (int, error) {
		return postJSON("http://"+to.admin+"/messages", body, map[string]string{"Authorization": "Bearer " + adminToken})
	}
	taken := func(to *process, bodies ...string) {
		t.Helper()
		for i, body := range bodies {
			if code, err := post(to, body); err != nil || code != http.StatusAccepted {
				t.Fatalf("POST /messages of list %d to %s = %d, %v, want 202", i, to.admin, code, err)
			}
		}
	}
	d.expect(t, page, "first")
	taken(owner, fmt.Sprintf(`{"id":"first","page":%q,"to":"99","text":"hi"}`, page))
	d.awaitSent(t, 1)
	victim := d.startDispatcher(t).ready(t) // on trial for some seconds: it has no page

	const lists, each, before = 8, 100, 3
	bodies := make([]string, lists)
	for i := range bodies {
		ids, list := make([]string, each), make([]map[string]string, each)
		for k := range each {
			ids[k] = fmt.Sprintf("%s/list%d/%d", page, i, k)
			list[k] = map[string]string{"id": ids[k], "page": page, "to": fmt.Sprint(100 + k), "text": "hi"}
		}
		d.expect(t, page, ids...)
		body, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		bodies[i] = string(body)
	}
	taken(victim, bodies[:before]...)
	answered := make(chan error, lists)
	for _, body := range bodies[before:] {
		go func() {
			_, err := post(victim, body)
			answered <- err
		}()
	}
	<-answered // the others are in its hands
	victim.Kill()
	for range lists - before - 1 {
		<-answered // or not
	}
	taken(owner, bodies...)
	d.awaitSent(t, 1+lists*each)
	program.Eventually(t, "the repetitions are noticed", func() error {
		if n := owner.metric(t, "chatclub_dispatch_repeats_total"); n < before*each {
			return fmt.Errorf("%v of at least %d", n, before*each)
		}
		return nil
	})
	got, err := d.totals()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ledger: %+v, repetitions: %v", got, owner.metric(t, "chatclub_dispatch_repeats_total"))
	checkComplete(t, got, 0)
}

// metric returns the value of a metric without labels.
func (p *process) metric(t *testing.T, name string) float64 {
	t.Helper()
	_, body, err := get("http://" + p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
		if value, ok := strings.CutPrefix(s.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no metric %s", p.Name, name)
	return 0
}
