package orders

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

func at(s float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(s * float64(time.Second)))
}

func order(kind Kind, s float64, change func(*Order)) Order {
	o := Order{Kind: kind, Page: "1", Time: at(s).UnixMilli()}
	if change != nil {
		change(&o)
	}
	return o
}

func until(s float64) func(*Order) { return func(o *Order) { o.Until = at(s).UnixMilli() } }

func limits(l message.Limits) func(*Order) { return func(o *Order) { o.Limits = l } }

// TestPause: when a page is paused, and how much older a message does not grow for it.
func TestPause(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		orders []Order
		paused []float64 // of the seconds 0, 10 … 60
		held   time.Duration
	}{
		{"none", nil, nil, 0},
		{"until resumed", []Order{order(Pause, 5, nil)}, []float64{10, 20, 30, 40, 50, 60}, 55 * time.Second},
		{"resumed", []Order{order(Pause, 5, nil), order(Resume, 25, nil)}, []float64{10, 20}, 20 * time.Second},
		{"for a time", []Order{order(Pause, 5, until(25))}, []float64{10, 20}, 20 * time.Second},
		{"resumed before its end", []Order{order(Pause, 5, until(50)), order(Resume, 15, nil)}, []float64{10}, 10 * time.Second},
		{"resumed after its end", []Order{order(Pause, 5, until(15)), order(Resume, 50, nil)}, []float64{10}, 10 * time.Second},
		{"twice", []Order{order(Pause, 5, until(15)), order(Pause, 25, until(45))}, []float64{30, 40}, 30 * time.Second},
		{"made longer", []Order{order(Pause, 5, until(15)), order(Pause, 10, until(25))}, []float64{10, 20}, 20 * time.Second},
		{"limits between", []Order{order(Pause, 5, until(25)), order(Limit, 10, limits(message.Limits{}))}, []float64{10, 20}, 20 * time.Second},
	} {
		var p *Page
		for _, o := range row.orders {
			p = p.with(o)
		}
		if got := p.Held(at(0), at(60)); got != row.held {
			t.Errorf("%s: Held() = %v, want %v", row.name, got, row.held)
		}
		last := at(0)
		if len(row.orders) > 0 {
			last = time.UnixMilli(row.orders[len(row.orders)-1].Time)
		}
		for s := 0.0; s <= 60; s += 10 {
			if at(s).Before(last) {
				continue // Paused is asked about the present
			}
			if _, paused := p.Paused(at(s)); paused != slices.Contains(row.paused, s) {
				t.Errorf("%s: Paused(%v) = %v", row.name, s, paused)
			}
		}
	}
}

// TestManyPauses: the latest are remembered.
func TestManyPauses(t *testing.T) {
	t.Parallel()
	var p *Page
	for i := range 1000 {
		p = p.with(order(Pause, float64(2*i), nil)).with(order(Resume, float64(2*i+1), nil))
	}
	if len(p.past) != maxPast || p.Held(at(1990), at(2000)) != 5*time.Second {
		t.Errorf("%d pauses are remembered, of the last ten seconds %v", len(p.past), p.Held(at(1990), at(2000)))
	}
}

// TestValidate names every wrong field.
func TestValidate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		order Order
		want  string // in the error; empty: valid
	}{
		{order(Pause, 1, until(2)), ""},
		{order(Pause, 1, until(1)), "until"},
		{order(Limit, 1, limits(message.Limits{Text: 1, Media: 0.5})), "media must be 1 to"},
		{order(Limit, 1, limits(message.Limits{Text: 2e6})), "text must be 1 to"},
		{order(Limit, 1, limits(message.Limits{Recipient: -1})), "recipient must be 0.01 to"},
		{Order{Kind: "stop", Page: "1"}, "kind"},
		{Order{Kind: Resume}, "page"},
		{Order{Kind: Resume, Page: "a\x00b"}, "page"},
		{Order{Kind: Resume, Page: "a\ufffd"}, "page"},
		{order(Pause, 1, func(o *Order) { o.Reason = strings.Repeat("x", 501) }), "reason"},
	} {
		err := row.order.Validate()
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("Validate(%+v) = %v, want %q in it", row.order, err, row.want)
		}
	}
}

// An order costs the same however many pages have one. It counts allocations, so nothing
// runs beside it.
func TestManyPages(t *testing.T) {
	b := NewBook()
	for i := range 10_000 {
		b.Apply(Order{Kind: Limit, Page: strconv.Itoa(i)})
	}
	if n := testing.AllocsPerRun(10, func() { b.Apply(Order{Kind: Limit, Page: "7"}) }); n > 1 || len(b.Pages()) != 10_000 {
		t.Errorf("an order is %v allocations with %d pages, want its own with all", n, len(b.Pages()))
	}
}

// TestFollow: two books read orders from before they began, and later ones. What
// is no order is left out.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 1})
		give := func(o Order) {
			if err := Give(t.Context(), b, o); err != nil {
				t.Fatal(err)
			}
		}
		give(order(Pause, 1, nil))
		if err := b.Publish(t.Context(), queue.Message{Queue: b.Topology().Orders(), ID: "x", Body: []byte("{")}); err != nil {
			t.Fatal(err)
		}
		give(order(Limit, 2, limits(message.Limits{Text: 80})))
		ctx, cancel := context.WithCancel(t.Context())
		books := []*Book{NewBook(), NewBook()}
		seen := make([]int, 2)
		done := make(chan error, 2)
		for i, book := range books {
			go func() { done <- book.Follow(ctx, b, slog.New(slog.DiscardHandler), func(Order) { seen[i]++ }) }()
			<-book.Known()
			if p := book.Page("1"); p == nil || p.Since.IsZero() || book.Limits("1") != (message.Limits{Text: 80}) {
				t.Errorf("book %d knows %+v, want the pause and the limit", i, p)
			}
		}
		give(order(Resume, 3, nil))
		synctest.Wait()
		cancel()
		for i, book := range books {
			if err := <-done; err != nil {
				t.Error(err)
			}
			if _, paused := book.Page("1").Paused(at(4)); paused || seen[i] != 3 {
				t.Errorf("book %d: paused %v after %d orders, want resumed after 3", i, paused, seen[i])
			}
		}
	})
}

// starting is a broker that is starting: it says that the stream is empty, and delivers a
// second later.
type starting struct{ queue.Broker }

func (starting) Inspect(context.Context, string) (queue.Info, error) { return queue.Info{}, nil }

func (s starting) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	time.Sleep(time.Second)
	return s.Broker.Consume(name, opts)
}

// TestKnownOnAStartingBroker: orders are known once they are read, whatever the broker says.
func TestKnownOnAStartingBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 1})
		if err := Give(t.Context(), b, order(Pause, 1, nil)); err != nil {
			t.Fatal(err)
		}
		book, done := NewBook(), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- book.Follow(ctx, starting{b}, slog.New(slog.DiscardHandler), func(Order) {}) }()
		<-book.Known()
		if book.Page("1") == nil {
			t.Error("the orders are known without the pause")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestHandler: every request is an order on the stream, or is refused with the field's name.
func TestHandler(t *testing.T) {
	t.Parallel()
	b := memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 1})
	h := Handler(b, func() time.Time { return at(0) }, slog.New(slog.DiscardHandler))
	given := 0
	for _, row := range []struct {
		method, path, body string
		status             int
		field              string
	}{
		{"POST", "/pages/1/pause", "", 204, ""},
		{"POST", "/pages/1/pause", `{"for":"1h","reason":"spam"}`, 204, ""},
		{"POST", "/pages/1/pause", `{"for":"soon"}`, 400, "for"},
		{"POST", "/pages/1/pause", `{"for":"-1h"}`, 400, "for"},
		{"POST", "/pages/1/pause", `{"for":3}`, 400, "for"},
		{"POST", "/pages/1/pause", `{"until":3}`, 400, "until"},
		{"POST", "/pages/1/pause", `{} {}`, 400, "body"},
		{"POST", "/pages/1/resume", "", 204, ""},
		{"PUT", "/pages/1/limits", `{"text":80}`, 204, ""},
		{"PUT", "/pages/1/limits", `{"text":"80"}`, 400, "text"},
		{"PUT", "/pages/1/limits", `{"text":0}`, 400, "body"},
		{"PUT", "/pages/1/limits", `{"text":2e6}`, 400, "text"},
		{"PUT", "/pages/1/limits", `{"voice":5}`, 400, "voice"},
		{"PUT", "/pages/1/limits", `{}`, 400, "body"},
		{"PUT", "/pages/1/limits", ``, 400, "body"},
		{"PUT", "/pages/1/limits", `[`, 400, "body"},
		{"DELETE", "/pages/1/limits", "", 204, ""},
		{"POST", "/pages/%00/resume", "", 400, "page"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(row.method, row.path, strings.NewReader(row.body)))
		var answer struct{ Field, Error string }
		_ = json.Unmarshal(w.Body.Bytes(), &answer)
		if w.Code != row.status || answer.Field != row.field || (answer.Error == "") != (row.status == http.StatusNoContent) ||
			row.field != "" && !strings.HasPrefix(answer.Error, row.field+": ") {
			t.Errorf("%s %s %s: %d %+v, want %d, field %q", row.method, row.path, row.body, w.Code, answer, row.status, row.field)
		}
		if row.status == http.StatusNoContent {
			given++
		}
	}
	if info, err := b.Inspect(t.Context(), b.Topology().Orders()); err != nil || info.Ready != given {
		t.Errorf("%d orders are on the stream (%v), want %d", info.Ready, err, given)
	}
	_ = b.Close()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/pages/1/resume", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a broker: %d, want 503", w.Code)
	}
}
