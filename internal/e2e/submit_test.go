package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"chatclub/tools/program"
)

// TestKilledPort: a dispatcher is killed while it takes messages by HTTP. The bot cannot
// know which of its lists are on the queue, and posts all of them to another dispatcher:
// every message is sent once.
func TestKilledPort(t *testing.T) {
	t.Parallel()
	for range 5 {
		if killedPort(t) {
			return
		}
	}
	t.Fatal("no dispatcher was killed in time")
}

// killedPort returns false when the dispatcher may have had pages of its own, and have
// sent what others then sent again.
func killedPort(t *testing.T) bool {
	t.Helper()
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
	const trial = 5 * time.Second // of a newcomer, which has no page
	began := time.Now()
	victim := d.startDispatcher(t).ready(t)
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
	if took := time.Since(began); took >= trial {
		t.Logf("the dispatcher was killed after %v", took)
		return false
	}
	for range lists - before - 1 {
		<-answered // or not
	}
	taken(owner, bodies...)
	d.awaitSent(t, 1+lists*each)
	var got totals
	program.Eventually(t, "the repetitions are noticed", func() error {
		n, err := owner.metric("chatclub_dispatch_repeats_total")
		if err == nil && n < before*each {
			err = fmt.Errorf("%v of at least %d", n, before*each)
		}
		if err == nil {
			got, err = d.totals()
		}
		return err
	})
	t.Logf("ledger: %+v", got)
	checkComplete(t, got, 0)
	return true
}

// metric returns the value of a metric without labels.
func (p *process) metric(name string) (float64, error) {
	_, body, err := get("http://" + p.admin + "/metrics")
	if err != nil {
		return 0, err
	}
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
		if value, ok := strings.CutPrefix(s.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", p.Name, name)
}
