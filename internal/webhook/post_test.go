package webhook

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/message"
)

func TestSlowBroker(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		confirms time.Duration
		code     int
		takes    time.Duration
	}{
		{"in time", 2 * time.Second, 200, 2 * time.Second},
		{"too late", time.Hour, 503, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			block := make(chan struct{})
			timer := time.AfterFunc(row.confirms, func() { close(block) })
			defer timer.Stop()
			f := setup(t, nil)
			f.published.block = block
			start := time.Now()
			w := f.postSigned(oneText)
			if took := time.Since(start); w.Code != row.code || took != row.takes {
				t.Errorf("%s: POST = %d after %v, want %d after %v", row.name, w.Code, took, row.code, row.takes)
			}
			if got := w.Header().Get("Retry-After"); (got != "") != (row.code == 503) {
				t.Errorf("%s: Retry-After = %q, want one only with 503", row.name, got)
			}
		})
	}
}

func TestBrokerFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	n := 0
	post := func(want int) {
		t.Helper()
		n++
		if w := f.postSigned(strings.Replace(oneText, "m_1", fmt.Sprint("m_", n), 1)); w.Code != want {
			t.Errorf("POST = %d, want %d", w.Code, want)
		}
	}
	post(200)
	f.published.setErr(errors.New("inbound: unroutable"))
	post(503)
	post(503)
	f.published.setErr(nil)
	post(200)
	post(200)
	log := f.log.String()
	if warns, infos := strings.Count(log, "level=WARN"), strings.Count(log, "level=INFO"); warns != 1 || infos != 1 {
		t.Errorf("log has %d warnings and %d notes, want 1 and 1:\n%s", warns, infos, log)
	}
	if strings.Contains(log, "geheim") {
		t.Errorf("a message's text was logged:\n%s", log)
	}
}

// TestRepeated: a body is taken once an hour. One whose events were not confirmed, or not in
// time, is taken when it comes again, and so is another one beside it.
func TestRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, nil)
		post := func(body string, want, wantPublished int) {
			t.Helper()
			if w := f.postSigned(body); w.Code != want || len(f.published.inbound()) != wantPublished {
				t.Errorf("POST = %d with %d events, want %d with %d", w.Code, len(f.published.inbound()), want, wantPublished)
			}
		}
		f.published.setErr(errors.New("inbound: unroutable"))
		post(oneText, 503, 0)
		post(oneText, 503, 0)
		f.published.setErr(nil)
		post(oneText, 200, 1)
		post(oneText, 200, 1)
		post(oneText+" ", 200, 2) // another body
		time.Sleep(time.Hour - time.Second)
		post(oneText, 200, 2)
		time.Sleep(2 * time.Hour)
		post(oneText, 200, 3)
		if w := f.do(http.MethodPost, "/webhook", strings.NewReader(oneText), SignatureHeader, sign256([]byte("another"))); w.Code != 403 {
			t.Errorf("POST of a known body with a wrong signature = %d, want 403", w.Code)
		}
	})
}

// TestTakenIsBounded: the memory of bodies is bounded, and keeps the latest.
func TestTakenIsBounded(t *testing.T) {
	t.Parallel()
	var all taken
	now := time.Unix(1e9, 0)
	name := func(i int) (s signature) {
		binary.BigEndian.PutUint64(s[:], uint64(i))
		return s
	}
	const bodies = 3*maxTaken + 10
	for i := range bodies {
		all.add(name(i), now)
		if len(all.latest)+len(all.old) > 2*maxTaken {
			t.Fatalf("%d bodies are remembered, want %d at most", len(all.latest)+len(all.old), 2*maxTaken)
		}
	}
	if all.has(name(0), now) || !all.has(name(bodies-maxTaken), now) || !all.has(name(bodies-1), now) {
		t.Error("the oldest body is remembered, or the latest ones are not")
	}
	if later := now.Add(2 * takenFor); all.has(name(bodies-1), later) {
		t.Error("a body is remembered for two hours")
	}
	all.add(name(1), now.Add(time.Hour))
	if all.has(name(2), now) || len(all.old) > 0 {
		t.Error("after the clock was set back more is remembered than what came since")
	}
}

// TestWrongSecretsAreTold: refused requests are logged once a minute, with their number and
// the setting that is wrong perhaps.
func TestWrongSecretsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, nil)
		for range 3 {
			for range 4 {
				f.do(http.MethodPost, "/webhook", strings.NewReader(oneText), SignatureHeader, sign256([]byte("another")))
			}
			f.do(http.MethodGet, "/webhook?hub.mode=subscribe&hub.challenge=1&hub.verify_token=geheim", nil)
			time.Sleep(31 * time.Second)
		}
		f.do(http.MethodDelete, "/webhook", nil)
		var got []string
		for line := range strings.Lines(f.log.String()) {
			_, rest, _ := strings.Cut(strings.TrimSpace(line), " level=")
			got = append(got, rest)
		}
		const text = `WARN msg="requests are refused; is the setting the same at Meta?" setting=`
		if diff := cmp.Diff([]string{
			text + "APP_SECRET requests=1", text + "VERIFY_TOKEN requests=1",
			text + "APP_SECRET requests=8", text + "VERIFY_TOKEN requests=2",
		}, got); diff != "" {
			t.Errorf("log: -want +got\n%s", diff)
		}
	})
}

func TestOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 3
		block := make(chan struct{})
		f := setup(t, func(c *Config) { c.MaxInFlight = limit })
		f.published.block = block
		var wg sync.WaitGroup
		codes := make([]int, limit)
		for i := range limit {
			wg.Go(func() { codes[i] = f.postSigned(oneText).Code })
		}
		synctest.Wait()
		if err := testutil.GatherAndCompare(f.registry, strings.NewReader(
			"# HELP chatclub_webhook_in_flight POST requests that Messenger signed and that are being handled.\n# TYPE chatclub_webhook_in_flight gauge\nchatclub_webhook_in_flight 3\n",
		), "chatclub_webhook_in_flight"); err != nil {
			t.Error(err)
		}
		start := time.Now()
		w := f.postSigned(oneText)
		if w.Code != 503 || w.Header().Get("Retry-After") == "" || time.Since(start) != 0 {
			t.Errorf("POST above the limit = %d after %v, want 503 with Retry-After at once", w.Code, time.Since(start))
		}
		if w := f.do(http.MethodGet, "/webhook?hub.mode=subscribe&hub.verify_token=verify+me&hub.challenge=1", nil); w.Code != 200 {
			t.Errorf("GET while POSTs are at their limit = %d, want 200", w.Code)
		}
		close(block)
		wg.Wait()
		if diff := cmp.Diff([]int{200, 200, 200}, codes); diff != "" {
			t.Errorf("codes in flight: -want +got\n%s", diff)
		}
		if w := f.postSigned(oneText); w.Code != 200 {
			t.Errorf("POST after the others = %d, want 200", w.Code)
		}
	})
}

// TestGoodAndBadTogether checks that one body makes one batch, with its good
// events on inbound and its bad pieces raw on dead.
func TestGoodAndBadTogether(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	good1 := `{"sender":{"id":"2"},"timestamp":1763600000004,"message":{"mid":"m_1","text":"a"}}`
	good2 := `{"sender":{"id":"3"},"timestamp":1763600000005,"message":{"mid":"m_2","text":"b"}}`
	badItem := `{"sender":{"id":2},"message":{"mid":"m_3","text":["c"]}}`
	badEntry := `{"id":7,"messaging":{}}`
	body := `{"object":"page","entry":[` + badEntry + `,{"id":"1","time":1763600000009,"messaging":[` + good1 + `,` + badItem + `,` + good2 + `]}]}`
	if w := f.postSigned(body); w.Code != 200 || w.Body.String() != "EVENT_RECEIVED" {
		t.Fatalf("POST = %d %q, want 200 EVENT_RECEIVED", w.Code, w.Body)
	}
	if n := len(f.published.batches); n != 1 {
		t.Errorf("POST published %d batches, want 1", n)
	}
	want := []message.Event{
		{Kind: message.KindMessage, Page: "1", ID: "m_1", User: "2", Time: 1763600000004, Text: "a"},
		{Kind: message.KindMessage, Page: "1", ID: "m_2", User: "3", Time: 1763600000005, Text: "b"},
	}
	if diff := cmp.Diff(want, events(t, f.published.inbound())); diff != "" {
		t.Errorf("events: -want +got\n%s", diff)
	}
	var bodies []string
	for _, m := range f.published.on("test.dead") {
		bodies = append(bodies, string(m.Body))
		death, err := message.DeathFromHeaders(m.Headers)
		if err != nil || death.Reason != message.ReasonUndecodable || death.Queue != testTopology.InboundOf("") || death.Time.IsZero() {
			t.Errorf("death = %+v, %v, want undecodable from an inbound partition, with its time", death, err)
		}
	}
	if diff := cmp.Diff([]string{`{"object":"page","entry":[` + badEntry + `]}`, onPage(badItem)}, bodies); diff != "" {
		t.Errorf("dead: -want +got\n%s", diff)
	}
}

// TestClientGoes checks that publishing ends when the client disconnects.
func TestClientGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, nil)
		f.published.block = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/webhook", strings.NewReader(oneText))
		r.Header.Set(SignatureHeader, sign256([]byte(oneText)))
		start := time.Now()
		f.ServeHTTP(httptest.NewRecorder(), r)
		if took := time.Since(start); took != time.Second {
			t.Errorf("handler ended after %v, want 1s", took)
		}
	})
}

// discard is a ResponseWriter without cost.
type discard struct{ head http.Header }

func (d discard) Header() http.Header       { return d.head }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
