package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/tools/program"
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

// A page far above its limit is paused: all four dispatchers stop for it. They stay
// stopped while each of them, core and the broker are restarted, and go on in order once
// the page is resumed, at the limit that it was given meanwhile. Nothing is lost, and
// nothing doubled, because nothing was on its way.
func TestOrdersOnRabbitMQ(t *testing.T) {
	long(t, "TestPausedPage and TestOrderedLimit of package dispatch have its parts")
	t.Parallel()
	broker := rabbittest.Start(t)
	p := plan{
		pages: 2, rooms: 1, users: 40, eventsPerSecond: 20, chat: 15 * time.Second, cores: 1, dispatchers: 4, amqpURL: broker.URL,
		dispatcher: map[string]string{"JOIN_TEXTS": "1", "LIMIT_TEXT": "200"},
	}
	d := deploy(t, p)
	d.awaitSent(t, 600)
	pages := d.pageIDs(t)
	for _, page := range pages {
		order(t, d.dispatchers[0], http.MethodPost, page, "pause", `{"reason":"test"}`)
	}
	accepted := func() int64 {
		got, err := d.totals()
		if err != nil {
			t.Fatal(err)
		}
		return got.Accepted
	}
	last := int64(-1)
	program.Eventually(t, "nothing is sent", func() error {
		before := last
		if last = accepted(); last != before {
			return fmt.Errorf("%d sends more", last-before)
		}
		time.Sleep(time.Second)
		return nil
	})
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

	const limit = 50
	for _, page := range pages {
		order(t, d.cores[1], http.MethodPut, page, "limits", fmt.Sprintf(`{"text":%d}`, limit))
		order(t, d.cores[1], http.MethodPost, page, "resume", "")
	}
	d.awaitSent(t, last+100)
	from, began := accepted(), time.Now()
	time.Sleep(5 * time.Second)
	n, most := accepted()-from, float64(limit*len(pages))*(time.Since(began).Seconds()+1)
	if float64(n) > most {
		t.Errorf("%d sends in %v at a limit of %d for each of %d pages, want at most %.0f", n, time.Since(began), limit, len(pages), most)
	}
	for _, page := range pages {
		order(t, d.dispatchers[4], http.MethodDelete, page, "limits", "")
	}
	got := d.settle(t)
	checkComplete(t, got, 0)
	if got.Inversions != 0 {
		t.Errorf("%d copies were overtaken", got.Inversions)
	}
}
