package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/tools/program"
)

// order has an admin port take an order about a page.
func order(t *testing.T, p *process, method, page, what, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.admin+"/pages/"+page+"/"+what, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s = %d, want 204", method, req.URL, res.StatusCode)
	}
}

// Two pages far above their limit are given a lower one, and then paused: all four
// dispatchers obey. They still do after each of them, core and the broker were restarted.
// When the pages are resumed they go on in order, at the limit that was ordered before all
// that. Nothing is lost, and nothing doubled, because nothing was on its way.
func TestOrdersOnRabbitMQ(t *testing.T) {
	long(t, "TestPausedPage and TestOrderedLimit of package dispatch have its parts")
	t.Parallel()
	broker := rabbittest.Start(t)
	p := plan{
		pages: 2, rooms: 1, users: 40, eventsPerSecond: 20, chat: 15 * time.Second, cores: 1, dispatchers: 4, amqpURL: broker.URL,
		dispatcher: map[string]string{"JOIN_TEXTS": "1", "LIMIT_TEXT": "200"},
		core:       map[string]string{"FLOOD_SHARE": "0"}, // the pages are far above their limit
	}
	d := deploy(t, p)
	d.awaitSent(t, 600)
	pages := d.pageIDs(t)
	accepted := func() int64 {
		got, err := d.totals()
		if err != nil {
			t.Fatal(err)
		}
		return got.Accepted
	}
	const limit = 50
	limited := func(when string) {
		t.Helper()
		from, began := accepted(), time.Now()
		time.Sleep(5 * time.Second)
		n, took := accepted()-from, time.Since(began)
		t.Logf("%s: %.0f sends a second at a limit of %d for each of %d pages", when, float64(n)/took.Seconds(), limit, len(pages))
		if most := float64(limit*len(pages)) * (took.Seconds() + 1); float64(n) > most {
			t.Errorf("%s: %d sends in %v, want at most %.0f", when, n, took, most)
		}
	}
	for _, page := range pages {
		order(t, d.dispatchers[0], http.MethodPut, page, "limits", fmt.Sprintf(`{"text":%d}`, limit))
	}
	program.Eventually(t, "every dispatcher that has a page goes by the ordered limit", func() error {
		ordered := 0
		for _, p := range d.dispatchers {
			code, body, err := get("http://" + p.admin + "/pages")
			var status struct {
				Pages []struct {
					Class string
					Limit float64
				}
			}
			if err == nil {
				err = json.Unmarshal([]byte(body), &status)
			}
			if err != nil || code != http.StatusOK {
				return fmt.Errorf("GET /pages = %d %s, %w", code, body, err)
			}
			for _, page := range status.Pages {
				if page.Class == "text" && page.Limit != limit {
					return fmt.Errorf("%s: %s", p.Name, body)
				} else if page.Class == "text" {
					ordered++
				}
			}
		}
		if ordered < len(pages) {
			return fmt.Errorf("%d pages with the ordered limit", ordered)
		}
		return nil
	})
	time.Sleep(time.Second) // calls are in flight
	limited("at first")

	ordered := time.Now()
	for _, page := range pages {
		order(t, d.dispatchers[1], http.MethodPost, page, "pause", `{"reason":"test"}`)
	}
	last, at := int64(-1), ordered
	program.Eventually(t, "nothing is sent for three seconds", func() error {
		if n := accepted(); n != last {
			last, at = n, time.Now()
		}
		if time.Since(at) < 3*time.Second {
			return fmt.Errorf("%d sends, the last of them %v after the order", last, at.Sub(ordered))
		}
		return nil
	})
	t.Logf("the last send at most %v after the pause was ordered", at.Sub(ordered))
	still := func(when string) {
		t.Helper()
		time.Sleep(3 * time.Second)
		if n := accepted(); n != last {
			t.Fatalf("%d sends for paused pages %s", n-last, when)
		}
	}
	still("at first")
	for i := range p.dispatchers {
		d.startDispatcher(t).ready(t)
		d.dispatchers[i].Stop(t, 25*time.Second)
	}
	d.startCore(t).ready(t)
	d.cores[0].Stop(t, 25*time.Second)
	still("after a rolling restart")
	broker.Stop()
	notReady(t, d.dispatchers[p.dispatchers:]...)
	broker.Restart()
	for _, p := range append(d.dispatchers[p.dispatchers:], d.webhook, d.cores[1]) {
		p.ready(t)
	}
	still("after a restart of the broker")

	for _, page := range pages {
		order(t, d.cores[1], http.MethodPost, page, "resume", "")
	}
	d.awaitSent(t, last+100)
	limited("after the restarts")
	for _, page := range pages {
		order(t, d.dispatchers[4], http.MethodDelete, page, "limits", "")
	}
	got := d.settle(t)
	checkComplete(t, got, 0)
}
