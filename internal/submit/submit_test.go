package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
)

// now is the time of all events and requests.
var now = time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)

// faultyBroker is a broker that may fail, or take its time.
type faultyBroker struct {
	*memory.Broker
	mu      sync.Mutex
	err     error
	waits   chan struct{} // nil: nothing is waited for
	sick    string        // the queue whose messages alone wait; empty: all do
	waiting chan struct{} // gets an element for each publish that waits
	inspect time.Duration // of each question how long a queue is
	confirm time.Duration // of each publish that does not wait
}

func (l *faultyBroker) Inspect(ctx context.Context, name string) (queue.Info, error) {
	select {
	case <-time.After(l.inspect):
		return l.Broker.Inspect(ctx, name)
	case <-ctx.Done():
		return queue.Info{}, ctx.Err()
	}
}

func (l *faultyBroker) Publish(ctx context.Context, msgs ...queue.Message) error {
	l.mu.Lock()
	err, waits, waiting := l.err, l.waits, l.waiting
	l.mu.Unlock()
	if waits != nil && (l.sick == "" || l.sick == msgs[0].Queue) {
		select {
		case waiting <- struct{}{}:
			<-waits
		default:
			return errors.New("more are published than the test waits for")
		}
	}
	if err != nil {
		return err
	}
	time.Sleep(l.confirm)
	return l.Broker.Publish(ctx, msgs...)
}

type rig struct {
	*testing.T
	*Handler
	broker  *faultyBroker
	top     queue.Topology
	chunked bool // posts do not say their lengths
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	l := &faultyBroker{Broker: memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 16})}
	cfg := Config{Broker: l, Now: func() time.Time { return now }}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{T: t, Handler: h, broker: l, top: l.Topology()}
}

// answer is the answer to a request.
type answer struct {
	code  int
	after string   // Retry-After
	IDs   []string `json:"ids"`
	Error string   `json:"error"`
	Field string   `json:"field"`

	Warning string `json:"warning"`
}

func (r *rig) post(body, key string) (a answer) {
	r.Helper()
	req := httptest.NewRequestWithContext(r.Context(), http.MethodPost, "/messages", strings.NewReader(body))
	req.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if r.chunked {
		req.ContentLength = -1
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		r.Fatalf("POST %.200s = %d %q: %v", body, w.Code, w.Body, err)
	}
	a.code, a.after = w.Code, w.Header().Get("Retry-After")
	return a
}

// on takes the messages on a page's partition.
func (r *rig) on(page string) (list []message.Outbound) {
	r.Helper()
	for _, m := range memorytest.Drain(r.T, r.broker.Broker, r.top.OutboundOf(page)) {
		o, err := message.DecodeOutbound(m.Body)
		if err != nil || o.ID != m.ID || m.Headers["traceparent"] == "" {
			r.Errorf("published %s under %q with %v: %v", m.Body, m.ID, m.Headers, err)
		}
		list = append(list, o)
	}
	return list
}

// Missing fields are filled in, and each message goes to its page's partition.
func TestPost(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := r.post(`{"page":"1","to":"7","text":"hi"}`, "")
	got := r.on("1")
	if a.code != 202 || len(a.IDs) != 1 || !strings.HasPrefix(a.IDs[0], "1/") || len(got) != 1 {
		t.Fatalf("answer %+v, published %+v, want one message with an id of its page", a, got)
	}
	want := message.Outbound{ID: a.IDs[0], Page: "1", To: "7", Class: message.ClassText, Text: "hi", Time: now.UnixMilli()}
	if b, _ := got[0].Encode(); string(b) != string(must(want.Encode())) {
		t.Errorf("published %s, want %+v", b, want)
	}
	if a := r.post(`{"page":"1","to":"7","attachment":{"type":"video","url":"https://x/v"}}`, "mine"); a.code != 202 || a.IDs[0] != "mine" {
		t.Errorf("answer to one with a key %+v, want its id to be that", a)
	}
	if got := r.on("1"); len(got) != 1 || got[0].Class != message.ClassMedia {
		t.Errorf("published %+v, want one of class media", got)
	}
	var list []string
	for i := range 1000 {
		list = append(list, fmt.Sprintf(`{"id":"b%d","page":"%d","to":"7","text":"hi","time":%d}`, i, i%3+1, now.UnixMilli()-1))
	}
	if a = r.post("["+strings.Join(list, ",")+"]", ""); a.code != 202 || len(a.IDs) != 1000 || a.IDs[999] != "b999" {
		t.Fatalf("answer to 1,000 = %d with %d ids, want 202 and all", a.code, len(a.IDs))
	}
	for page, n := range map[string]int{"1": 334, "2": 333, "3": 333} {
		if got := r.on(page); len(got) != n || got[1].ID != fmt.Sprint("b", 3+len(page)*int(page[0]-'1')) || got[0].Time != now.UnixMilli()-1 {
			t.Errorf("page %s got %d messages, want %d in order", page, len(got), n)
		}
	}
}

// An id is unique among the messages to one person.
func TestOneIDForTwoPersons(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := r.post(`[{"id":"a","page":"1","to":"7","text":"hi"},{"id":"a","page":"1","to":"8","text":"hi"},{"id":"a","page":"2","to":"7","text":"hi"}]`, "")
	if one, two := r.on("1"), r.on("2"); a.code != 202 || len(a.IDs) != 3 || len(one) != 2 || len(two) != 1 {
		t.Errorf("answer %+v, published %+v and %+v, want all three", a, one, two)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// A page that is in no pages file is refused, with all that comes with it. A program without
// a pages file takes any page, and warns.
func TestPageThatNobodyKnows(t *testing.T) {
	t.Parallel()
	file := func(page string) bool { return page == "1" || page == "2" }
	message := func(page string) string { return `{"page":"` + page + `","to":"7","text":"hi"}` }
	for _, row := range []struct {
		name, body, field string
		knows             func(page string) bool
		warns             bool
		published         int
	}{
		{name: "known", body: message("1"), knows: file, published: 1},
		{name: "unknown", body: message("7"), knows: file, field: "page"},
		{name: "list of known ones", body: "[" + message("1") + "," + message("2") + "]", knows: file, published: 2},
		{name: "one of many", body: "[" + strings.Repeat(message("1")+",", 500) + message("7") + strings.Repeat(","+message("2"), 499) + "]", knows: file, field: "[500].page"},
		{name: "no pages file", body: message("7"), warns: true, published: 1},
		{name: "list, no pages file", body: "[" + message("7") + "," + message("1") + "]", warns: true, published: 2},
		{name: "a wrong field, no pages file", body: `{"page":"7"}`, field: "to"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) { c.KnowsPage = row.knows })
			a := r.post(row.body, "")
			published := len(r.on("1")) + len(r.on("2")) + len(r.on("7"))
			want := 202
			if row.field != "" {
				want = 400
			}
			if a.code != want || a.Field != row.field || (a.Warning != "") != row.warns || published != row.published || len(a.IDs) != row.published {
				t.Errorf("answer %+v and %d messages published, want %d, field %q, a warning: %v, and %d", a, published, want, row.field, row.warns, row.published)
			}
			if row.field != "" && !strings.HasPrefix(a.Error, row.field+": ") {
				t.Errorf("error %q does not begin with its field", a.Error)
			}
		})
	}
}

// TestIDOfAnyLanguage: an id may have any letters, and a text may be no UTF-8.
func TestIDOfAnyLanguage(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if a := r.post("{\"id\":\"grüße-😀\",\"page\":\"1\",\"to\":\"7\",\"text\":\"\xe9\"}", ""); a.code != 202 || len(a.IDs) != 1 || a.IDs[0] != "grüße-😀" {
		t.Errorf("POST = %+v, want 202 and the id", a)
	}
}

// A wrong field is named, and nothing of the request is published.
func TestWrongFieldIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for body, field := range map[string]string{
		`{"to":"7","text":"hi"}`:                                           "page",
		`{"page":"1","text":"hi"}`:                                         "to",
		`{"page":"1 2","to":"7","text":"hi"}`:                              "page",
		`{"page":"1","to":"` + strings.Repeat("7", 33) + `","text":"hi"}`:  "to",
		`{"page":"1","to":"7"}`:                                            "text",
		`{"page":"1","to":7,"text":"hi"}`:                                  "to",
		`{"page":"1","to":"7","txt":"hi"}`:                                 "txt",
		`{"page":"1","to":"7","text":"hi","time":1767225600}`:              "time",
		`{"page":"1","to":"7","text":"hi","class":"video"}`:                "class",
		`{"page":"1","to":"7","text":"hi","id":"a b"}`:                     "id",
		`{"page":"1","to":"7","text":"hi","attempts":3}`:                   "attempts",
		`{"page":"1","to":"7","text":"` + strings.Repeat("x", 2001) + `"}`: "text",
		`{"page":"1","to":"7","text":"hi"} {}`:                             "body",
		``:                                                                 "body",
		`[]`:                                                               "body",
		`[` + strings.Repeat(`{},`, 1000) + `{}]`:                          "body",
		`[{"id":"a","page":"1","to":"7","text":"hi"},{"id":"b","page":"1","to":"7"}]`:             "[1].text",
		`[{"id":"a","page":"1","to":"7","text":"hi"},{"id":"a","page":"1","to":"7","text":"ho"}]`: "[1].id",
	} {
		if a := r.post(body, ""); a.code != 400 || a.Field != field || !strings.HasPrefix(a.Error, field+": ") {
			t.Errorf("POST %.100s = %+v, want 400 and field %s", body, a, field)
		}
	}
	if a := r.post(`{"page":"1","to":"7","text":"hi","time":1795671166164.5}`, ""); a.Error != "time: must be a whole number" {
		t.Errorf("POST of a time with a fraction = %q, want a whole number asked for", a.Error)
	}
	for _, body := range []string{`{"id":"x","page":"1","to":"7","text":"hi"}`, `[{"page":"1","to":"7","text":"hi"}]`} {
		if a := r.post(body, "key"); a.code != 400 || a.Field != "Idempotency-Key" {
			t.Errorf("POST %s with a key = %+v, want 400 and field Idempotency-Key", body, a)
		}
	}
	// An id is never made another one: two of them would become one, and one message be lost.
	for body, field := range map[string]string{
		"{\"id\":\"order-\xe9\",\"page\":\"1\",\"to\":\"7\",\"text\":\"hi\"}": "id", `{"id":"\ud800","page":"1","to":"7","text":"hi"}`: "id",
		"{\"page\":\"1\xe9\",\"to\":\"7\",\"text\":\"hi\"}": "page", "{\"page\":\"1\",\"to\":\"7\ufffd\",\"text\":\"hi\"}": "to",
	} {
		if a := r.post(body, ""); a.code != 400 || a.Field != field {
			t.Errorf("POST %q = %+v, want 400 and field %s", body, a, field)
		}
	}
	for _, key := range []string{"order-\xe9", "order-\xe8", "order-\ufffd"} { // as Latin-1 in a header
		if a := r.post(`{"page":"1","to":"7","text":"hi"}`, key); a.code != 400 || a.Field != "Idempotency-Key" {
			t.Errorf("POST with the key %q = %+v, want 400 and field Idempotency-Key", key, a)
		}
	}
	if a := r.post(strings.Repeat(" ", maxBody+1), ""); a.code != 413 {
		t.Errorf("POST of more than maxBody = %+v, want 413", a)
	}
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/messages", strings.NewReader("{}"))
	req.ContentLength = math.MaxInt64
	if r.ServeHTTP(w, req); w.Code != 413 {
		t.Errorf("POST that says it is very long = %d, want 413", w.Code)
	}
	if got := r.on("1"); len(got) > 0 {
		t.Errorf("%d messages of wrong requests were published, want none", len(got))
	}
}

// An unconfirmed message is to be repeated, and has the same id then: the dispatcher
// sends it once.
func TestRepetition(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const one = `{"page":"1","to":"7","text":"hi"}`
	r.broker.err = errors.New("away")
	if a := r.post(one, "k"); a.code != 503 || a.after != "1" || len(a.IDs) != 1 || a.IDs[0] != "k" {
		t.Errorf("answer while the broker is away %+v, want 503 with Retry-After and the id", a)
	}
	if a := r.post("["+one+","+one+"]", ""); a.code != 503 || len(a.IDs) != 2 || !strings.HasPrefix(a.IDs[1], "1/") {
		t.Errorf("answer to two without ids while the broker is away %+v, want 503 with those that were made", a)
	}
	r.broker.err = nil
	if a := r.post(one, "k"); a.code != 202 || a.IDs[0] != "k" {
		t.Errorf("answer to a repetition %+v, want 202 with the same id", a)
	}
	if got := r.on("1"); len(got) != 1 || got[0].ID != "k" {
		t.Errorf("published %+v, want k", got)
	}
}

// A page for which too much waits is refused, and others are not.
func TestBacklog(t *testing.T) {
	t.Parallel()
	clock := now
	r := newRig(t, func(c *Config) {
		c.MaxBacklog = 3
		c.Now = func() time.Time { return clock }
	})
	post := func(page string, want int) {
		t.Helper()
		a := r.post(`{"page":"`+page+`","to":"7","text":"hi"}`, "")
		if a.code != want || want == 429 && (a.Field != "page" || a.after != "1") {
			t.Errorf("POST for page %s = %+v, want %d", page, a, want)
		}
	}
	for range 2 {
		post("1", 202)
		clock = clock.Add(knownFor)
	}
	lane := queue.Message{Queue: r.top.Lane(r.top.PartitionOf("1"), 2), ID: "x"}
	if err := r.broker.Broker.Publish(t.Context(), lane); err != nil {
		t.Fatal(err)
	}
	post("1", 429)
	post("2", 202)
	r.on("1")
	post("1", 429) // it is known for a second
	clock = clock.Add(knownFor)
	post("1", 202)
}

// A list over many partitions may take long, as long as each is told in time.
func TestBacklogOfManyPartitions(t *testing.T) {
	t.Parallel()
	for inspect, want := range map[time.Duration]struct {
		code  int
		after time.Duration
	}{
		100 * time.Millisecond: {202, 16 * 5 * 100 * time.Millisecond}, // partitions, with four lanes each
		time.Second:            {503, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.MaxBacklog = 3 })
			r.broker.inspect = inspect
			pages := make(map[int]string)
			for i := 1; len(pages) < r.top.Partitions; i++ {
				page := fmt.Sprint(i)
				pages[r.top.PartitionOf(page)] = page
			}
			var list []string
			for _, page := range pages {
				list = append(list, `{"id":"`+page+`","page":"`+page+`","to":"7","text":"hi"}`)
			}
			began := time.Now()
			a := r.post("["+strings.Join(list, ",")+"]", "")
			if took := time.Since(began); a.code != want.code || took != want.after {
				t.Errorf("POST for %d partitions at %v a queue = %+v after %v, want %d after %v", len(list), inspect, a, took, want.code, want.after)
			}
		})
	}
}

// hold begins n posts for each of the pages, and returns when all are waiting for the broker.
// Its function lets them go, and returns when each is answered 202.
func (r *rig) hold(n int, pages ...string) (release func()) {
	r.broker.waits, r.broker.waiting = make(chan struct{}), make(chan struct{}, n*len(pages))
	var all sync.WaitGroup
	for i := range n {
		for _, page := range pages {
			all.Go(func() {
				if a := r.post(`{"page":"`+page+`","to":"7","text":"hi"}`, fmt.Sprint(page, "/", i)); a.code != 202 {
					r.Errorf("answer %+v, want 202", a)
				}
			})
			<-r.broker.waiting
		}
	}
	r.broker.mu.Lock()
	r.broker.waiting = nil // nobody awaits more
	r.broker.mu.Unlock()
	return func() {
		close(r.broker.waits)
		all.Wait()
	}
}

// postMany posts n times for page 1, all at once, and returns how many got each status
// once all are answered.
func (r *rig) postMany(n int) (wait func() map[int]int) {
	codes := make(chan int, n)
	for i := range n {
		go func() { codes <- r.post(`{"page":"1","to":"7","text":"hi"}`, fmt.Sprint("many", i)).code }()
	}
	return func() map[int]int {
		got := make(map[int]int)
		for range n {
			got[<-codes]++
		}
		return got
	}
}

// A client that sends many requests at once, as by Promise.all, is served if the broker is well.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{20, fit} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			r.broker.confirm = 20 * time.Millisecond
			if got := r.postMany(n)(); got[202] != n {
				t.Errorf("answers to %d requests at once %v, want 202 to all", n, got)
			}
			if got := len(r.on("1")); got != n || len(r.busy) != 1 || r.busy[r.top.PartitionOf("1")] != 0 {
				t.Errorf("%d messages are published, and %v requests are counted, want %d and none", got, r.busy, n)
			}
		})
	}
}

// fit is the number of hold's posts that one partition takes at a time.
const fit = maxPartition / (requestMemory + messageMemory + len(`{"page":"3","to":"7","text":"hi"}`))

// More requests than the bound are refused, however slow the broker is.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	release := r.hold(fit, "3")
	if a := r.post(`{"page":"3","to":"7","text":"hi"}`, "more"); a.code != 503 || a.after != "1" || len(a.IDs) > 0 {
		t.Errorf("answer to one more %+v, want 503 with Retry-After", a)
	}
	release()
	r.broker.waits = nil
	if a := r.post(`{"page":"3","to":"7","text":"hi"}`, "more"); a.code != 202 {
		t.Errorf("answer after them %+v, want 202", a)
	}
}

// Five partitions that are not confirmed shut out no other, however many requests wait for them.
func TestSickPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	sick := make(map[string]bool)
	var pages []string
	for i := 0; len(pages) < 5; i++ {
		if page := fmt.Sprint(i); !sick[r.top.OutboundOf(page)] {
			sick[r.top.OutboundOf(page)], pages = true, append(pages, page)
		}
	}
	release := r.hold(fit, pages...)
	waits := r.broker.waits
	r.broker.waits, r.chunked = nil, true
	for i := range 100 {
		page := fmt.Sprint("other", i)
		want := 202
		if sick[r.top.OutboundOf(page)] {
			want = 503
		}
		if a := r.post(`{"page":"`+page+`","to":"7","text":"hi"}`, ""); a.code != want {
			t.Errorf("answer for a page of partition %s %+v, want %d", r.top.OutboundOf(page), a, want)
		}
	}
	r.broker.waits = waits
	release()
}

// A partition that is not confirmed shuts out no other, however many requests wait for it.
func TestSickPartition(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.broker.sick = r.top.OutboundOf("1")
	release := r.hold(fit, "1")
	r.chunked = true
	for page, want := range map[string]int{"1": 503, "2": 202} {
		for i := range 4 {
			if a := r.post(`{"page":"`+page+`","to":"7","text":"hi"}`, fmt.Sprint("more", i)); a.code != want || len(a.IDs) > 0 != (want == 202) {
				t.Errorf("answer for page %s %+v, want %d", page, a, want)
			}
		}
	}
	if a := r.post(`[{"page":"2","to":"7","text":"hi"},{"page":"1","to":"7","text":"hi"}]`, ""); a.code != 503 || len(a.IDs) > 0 {
		t.Errorf("answer to a list with both %+v, want 503", a)
	}
	release()
}

// Clients that are slow to send their bodies shut out nobody, unless they say that these
// are as large as may be.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int{100: 202, -1: 503} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			body, slow := io.Pipe()
			for range 12 {
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/messages", body)
				req.ContentLength = size
				go r.ServeHTTP(httptest.NewRecorder(), req)
			}
			synctest.Wait()
			if a := r.post(`{"page":"1","to":"7","text":"hi"}`, ""); a.code != want {
				t.Errorf("answer beside 12 bodies of size %d %+v, want %d", size, a, want)
			}
			_ = slow.Close()
		})
	}
}
