package operator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"chatclub/internal/broadcast"
	"chatclub/internal/command"
	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/rooms"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a handler on an in-memory database, with a scheduler that does not run.
type rig struct {
	store   *rooms.Store
	handler *Handler
	book    *orders.Book
}

// giveTo obeys orders at once.
func giveTo(b *orders.Book) func(context.Context, orders.Order) error {
	return func(_ context.Context, o orders.Order) error {
		if err := o.Validate(); err != nil {
			return err
		}
		b.Apply(o)
		return nil
	}
}

func newRig(t testing.TB) *rig {
	t.Helper()
	s, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	scheduler, err := broadcast.New(broadcast.Config{
		Broker: memorytest.New(t, queue.Topology{Prefix: "test", Partitions: 1}), Store: s.Broadcasts(),
	})
	if err != nil {
		t.Fatal(err)
	}
	book := orders.NewBook()
	most := func(page string) float64 { return book.Limits(page).Or(message.Limits{Text: 300}).Text }
	h, err := New(Config{Store: s, Scheduler: scheduler, Give: giveTo(book), Orders: book.Page, MaxRate: most})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{store: s, handler: h, book: book}
}

// receive receives an event of a user on page p, of this moment.
func (r *rig) receive(t testing.TB, user, id string, c command.Command) {
	t.Helper()
	if _, err := r.store.Receive(t.Context(), rooms.Event{Page: "p", User: user, ID: id, At: time.Now(), Command: c}); err != nil {
		t.Fatal(err)
	}
}

// ask makes a request and returns the status and body of the answer.
func (r *rig) ask(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func (r *rig) wantAnswer(t testing.TB, method, path, body string, status int, want string) {
	t.Helper()
	got, answer := r.ask(t, method, path, body)
	if got != status {
		t.Errorf("%s %s %s = %d %s, want %d", method, path, body, got, answer, status)
	}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("%s %s %s: -want +got\n%s", method, path, body, diff)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.wantAnswer(t, "GET", "/pages", "", 200, `{"pages":[]}`)
		r.receive(t, "1", "a", command.Command{Text: "hello"})
		r.receive(t, "2", "b", command.Command{Text: "hi"})
		r.receive(t, "3", "c", command.Command{Kind: command.Join, Room: "x"})
		r.receive(t, "1", "d", command.Command{Kind: command.Report, Name: "guest 2"})
		counts := map[rooms.RoomKey]rooms.Count{{Page: "p", Room: 1}: {Events: 2, Copies: 4}, {Page: "p", Room: 1_000_000_001}: {Copies: 1}}
		if err := r.store.AddCounts(t.Context(), counts); err != nil {
			t.Fatal(err)
		}
		if err := r.store.CountAudiences(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.wantAnswer(t, "GET", "/pages", "", 200, `{"pages":[{"page":"p","rooms":2,"members":3,"audience":3,"messages_per_hour":2,`+
			`"copies_per_hour":5,"copies_24h":5,"quota_24h":600,"quota_share":0.0083,"paused":false}]}`)
		r.wantAnswer(t, "GET", "/pages?after=p", "", 200, `{"pages":[]}`)
		r.wantAnswer(t, "GET", "/rooms?page=p", "", 200, `{"page":"p","rooms":[`+
			`{"room":1,"members":2,"messages_per_hour":2,"copies_per_hour":4,"opened":"2000-01-01T00:00:00Z"},`+
			`{"room":1000000001,"code":"x","members":1,"messages_per_hour":0,"copies_per_hour":1,"opened":"2000-01-01T00:00:00Z"}]}`)
		r.wantAnswer(t, "GET", "/reports?page=p", "", 200,
			`{"page":"p","reports":[{"reporter":"1","accused":"2","name":"Guest 2","room":1,"times":1,"at":"2000-01-01T00:00:00Z","texts":[{"at":"2000-01-01T00:00:00Z","text":"hi"}]}]}`)
		r.wantAnswer(t, "GET", "/messages?mid=b", "", 200,
			`{"messages":[{"page":"p","mid":"b","received":"2000-01-01T00:00:00Z","finished":false,"user":"2","room":1,"copies":1}]}`)
		r.wantAnswer(t, "GET", "/messages?mid=b&page=q", "", 200, `{"messages":[]}`)
		r.wantAnswer(t, "GET", "/people?psid=2", "", 200, `{"people":[{"page":"p","psid":"2","room":1,"wrote":"2000-01-01T00:00:00Z","closed":false}]}`)
		r.wantAnswer(t, "GET", "/people?psid=2&page=q", "", 200, `{"people":[]}`)
		r.receive(t, "2", "j", command.Command{Kind: command.Report, Name: "guest 1"})
		r.wantAnswer(t, "GET", "/reports?page=p&limit=1", "", 200, `{"next":"946684800000/j","page":"p","reports":[`+
			`{"reporter":"2","accused":"1","name":"Guest 1","room":1,"times":1,"at":"2000-01-01T00:00:00Z","texts":[{"at":"2000-01-01T00:00:00Z","text":"hello"}]}]}`)
		r.wantAnswer(t, "GET", "/reports?page=p&after=946684800000/j", "", 200, `{"page":"p","reports":[`+
			`{"reporter":"1","accused":"2","name":"Guest 2","room":1,"times":1,"at":"2000-01-01T00:00:00Z","texts":[{"at":"2000-01-01T00:00:00Z","text":"hi"}]}]}`)
	})
}

func TestPauseAndBan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.receive(t, "1", "a", command.Command{Text: "hello"})
		if err := r.store.CountAudiences(t.Context()); err != nil {
			t.Fatal(err)
		}
		view := func(paused string) string {
			return `{"pages":[{"page":"p","rooms":1,"members":1,"audience":1,"messages_per_hour":0,` +
				`"copies_per_hour":0,"copies_24h":0,"quota_24h":200,"quota_share":0,` + paused + `}]}`
		}
		r.wantAnswer(t, "POST", "/pages/p/pause", `{"for":"1h","reason":"spam"}`, 204, "")
		r.wantAnswer(t, "GET", "/pages", "", 200, view(`"paused":true,"paused_until":"2000-01-01T01:00:00Z","pause_reason":"operator: spam"`))
		r.wantAnswer(t, "POST", "/pages/p/pause", "", 204, "")
		r.wantAnswer(t, "GET", "/pages", "", 200, view(`"paused":true,"pause_reason":"operator"`))
		r.wantAnswer(t, "POST", "/pages/p/resume", "", 204, "")
		r.wantAnswer(t, "GET", "/pages", "", 200, view(`"paused":false`))
		r.wantAnswer(t, "GET", "/pauses", "", 200, `{"pauses":[]}`)
		if err := errors.Join(r.store.Pause(t.Context(), "p", "policy: spam", time.Now(), time.Time{}), r.store.Pause(t.Context(), "q", "stopped", time.Now(), time.Now().Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
		r.wantAnswer(t, "GET", "/pauses", "", 200, `{"pauses":[{"page":"p","reason":"policy: spam"},{"page":"q","until":"2000-01-01T01:00:00Z","reason":"stopped"}]}`)
		r.wantAnswer(t, "GET", "/pauses?limit=1", "", 200, `{"pauses":[{"page":"p","reason":"policy: spam"}]}`)
		r.wantAnswer(t, "POST", "/pages/p/resume", "", 204, "")
		r.wantAnswer(t, "PUT", "/pages/p/limits", `{"text":80}`, 204, "")
		if got := r.book.Limits("p"); got != (message.Limits{Text: 80}) {
			t.Errorf("the page's limits are %+v, want 80 texts", got)
		}
		r.wantAnswer(t, "POST", "/broadcast", `{"page":"p","text":"x","rate":81}`, 400,
			`{"error":"rate: must be above 0 and at most 80 messages per second","field":"rate"}`)

		wantBan := func(id string, want rooms.Result) {
			t.Helper()
			got, err := r.store.Receive(t.Context(), rooms.Event{Page: "p", User: "1", ID: id, At: time.Now()})
			if got.Rejected != want.Rejected || !got.Until.Equal(want.Until) || err != nil {
				t.Errorf("Receive(%s) = %+v, %v, want rejected %v until %v", id, got, err, want.Rejected, want.Until)
			}
		}
		r.wantAnswer(t, "POST", "/pages/p/users/1/ban", `{"for":"24h"}`, 204, "")
		wantBan("b", rooms.Result{Rejected: true, Until: time.Now().Add(24 * time.Hour)})
		r.wantAnswer(t, "POST", "/pages/p/users/1/ban", `{"forever":true}`, 204, "")
		time.Sleep(25 * time.Hour)
		wantBan("c", rooms.Result{Rejected: true})
		r.wantAnswer(t, "DELETE", "/pages/p/users/1/ban", "", 204, "")
		wantBan("d", rooms.Result{})

		r.wantAnswer(t, "DELETE", "/pages/p/users/1", "", 204, "")
		r.wantAnswer(t, "DELETE", "/pages/p/users/1", "", 404, `{"error":"psid: unknown on this page","field":"psid"}`)
	})
}

func TestBroadcasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, user := range []string{"1", "2"} {
			r.receive(t, user, "m"+user, command.Command{Text: "hello"})
		}
		r.receive(t, "3", "m3", command.Command{Kind: command.Join, Room: "x"})
		long := strings.Repeat("word ", 500)
		for request, want := range map[string]string{
			`{"page":"p","text":"News!","id":"n1","rate":5}`:                                              `{"id":"n1","recipients":3,"state":"running"}`,
			`{"page":"p","room":1000000001,"text":"News!","id":"n2","deadline":"2000-01-01T02:00:00.5Z"}`: `{"id":"n2","recipients":1,"state":"running"}`,
			`{"page":"p","text":"` + long + `","id":"n3","rate":1}`:                                       `{"id":"n3","recipients":3,"state":"running"}`,
		} {
			for range 2 { // the second time it is stored already
				r.wantAnswer(t, "POST", "/broadcast", request, 202, want)
			}
		}
		for field, request := range map[string]string{
			"page":     `{"page":"q","text":"News!","id":"n1","rate":5}`,
			"room":     `{"page":"p","room":1,"text":"News!","id":"n1","rate":5}`,
			"text":     `{"page":"p","text":"News","id":"n1","rate":5}`,
			"rate":     `{"page":"p","text":"News!","id":"n1"}`,
			"deadline": `{"page":"p","text":"News!","id":"n1","rate":5,"deadline":"2000-01-01T00:59:59Z"}`,
		} {
			if status, answer := r.ask(t, "POST", "/broadcast", request); status != 409 || !strings.Contains(answer, `"field":"id"`) {
				t.Errorf("POST /broadcast of another %s = %d %s, want 409 that names the id", field, status, answer)
			}
		}
		const n2 = `{"id":"n2","page":"p","room":1000000001,"text":"News!","rate":30,` +
			`"deadline":"2000-01-01T02:00:00.5Z","created":"2000-01-01T00:00:00Z","recipients":1,"queued":0,"state":"`
		r.wantAnswer(t, "GET", "/broadcasts/n2", "", 200, n2+`running"}`)
		for range 2 {
			r.wantAnswer(t, "DELETE", "/broadcasts/n2", "", 200, n2+`stopped"}`)
		}
		r.wantAnswer(t, "POST", "/broadcast", `{"page":"p","room":1000000001,"text":"News!","id":"n2"}`, 202, `{"id":"n2","recipients":1,"state":"stopped"}`)
		for range 2 { // a time from the start is another moment the second time
			r.wantAnswer(t, "POST", "/broadcast", `{"page":"p","text":"News!","id":"n4","within":"2h"}`, 202, `{"id":"n4","recipients":3,"state":"running"}`)
			time.Sleep(time.Second)
		}
		if _, answer := r.ask(t, "GET", "/broadcasts/n4", ""); !strings.Contains(answer, `"deadline":"2000-01-01T02:00:00Z"`) {
			t.Errorf("GET /broadcasts/n4 = %s, want the deadline of the first start", answer)
		}
		r.wantAnswer(t, "GET", "/broadcasts?page=q", "", 404, `{"error":"page: unknown","field":"page"}`)
		if _, answer := r.ask(t, "GET", "/broadcasts?page=p&limit=2", ""); strings.Count(answer, `"recipients"`) != 2 || strings.Contains(answer, "text") {
			t.Errorf("GET /broadcasts with a limit = %s, want 2 without texts", answer)
		}
	})
}

// TestWrongRequests checks that the answer to a wrong request names the field.
func TestWrongRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.receive(t, "1", "a", command.Command{Text: "hello"})
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
			{"GET", "/rooms?page=%ef%bf%bd", "", 400, "page"},
			{"POST", "/broadcast", "{\"page\":\"p\xff\",\"text\":\"x\"}", 400, "page"},
			{"DELETE", "/pages/p/users/%ef%bf%bd", "", 400, "psid"},
			{"GET", "/rooms?page=" + strings.Repeat("p", 513), "", 400, "page"},
			{"GET", "/reports?page=a%1fb", "", 400, "page"},
			{"POST", "/pages/%00/pause", `{"for":"1h"}`, 400, "page"},
			{"POST", "/pages/%ff/resume", ``, 400, "page"},
			{"POST", "/pages/p/pause", `{"reason":"` + strings.Repeat("x", 503) + `"}`, 400, "reason"},
			{"POST", "/pages/p/pause", `{"reason":"a\u0000b"}`, 400, "reason"},
			{"DELETE", "/pages/p/users/a%00b/ban", "", 400, "psid"},
			{"DELETE", "/pages/p/users/a%00b", "", 400, "psid"},
			{"DELETE", "/pages/p/users/9", "", 404, "psid"},
			{"DELETE", "/pages/typo/users/1", "", 404, "psid"},
			{"POST", "/broadcast", `{"page":"\u0000","text":"x"}`, 400, "page"},
			{"GET", "/rooms?page=p&after=-1", "", 400, "after"},
			{"GET", "/reports", "", 400, "page"},
			{"GET", "/reports?page=p&after=x", "", 400, "after"},
			{"POST", "/pages/typo/users/1/ban", `{"forever":true}`, 404, "psid"},
			{"DELETE", "/pages/typo/users/1/ban", "", 404, "psid"},
			{"GET", "/rooms?page=typo", "", 404, "page"},
			{"GET", "/reports?page=typo", "", 404, "page"},
			{"GET", "/broadcasts?page=typo", "", 404, "page"},
			{"POST", "/pages/p/pause", `{"for":"soon"}`, 400, "for"},
			{"POST", "/pages/p/pause", `{"why":"x"}`, 400, "why"},
			{"POST", "/pages/p/users/1/ban", ``, 400, "for"},
			{"POST", "/pages/p/users/1/ban", `{"for":"-1h"}`, 400, "for"},
			{"POST", "/pages/p/users/1/ban", `{"for":"1h","forever":true}`, 400, "for"},
			{"POST", "/pages/p/users/1/ban", `{"forever":"yes"}`, 400, "forever"},
			{"POST", "/pages/p/users/9/ban", `{"forever":true}`, 404, "psid"},
			{"POST", "/broadcast", `{`, 400, "body"},
			{"POST", "/broadcast", `[]`, 400, "body"},
			{"POST", "/broadcast", `{"page":"p","text":"x"}{"page":"p","text":"y"}`, 400, "body"},
			{"POST", "/pages/p/pause", `{"for":"1h"} x`, 400, "body"},
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
			{"POST", "/broadcast", `{"page":"p","text":"x","within":"-1h"}`, 400, "within"},
			{"POST", "/broadcast", `{"page":"p","text":"x","within":"25h"}`, 400, "within"},
			{"POST", "/broadcast", `{"page":"p","text":"x","within":"soon"}`, 400, "within"},
			{"POST", "/broadcast", `{"page":"p","text":"x","within":"1h","deadline":"2000-01-01T01:00:00Z"}`, 400, "within"},
			{"POST", "/broadcast", `{"page":"p","text":"x","id":"a/b"}`, 400, "id"},
			{"POST", "/broadcast", `{"page":"p","text":"x","id":".."}`, 400, "id"},
			{"POST", "/broadcast", `{"page":"p","text":"x","after":"1"}`, 400, "after"},
			{"GET", "/messages", "", 400, "mid"},
			{"GET", "/people", "", 400, "psid"},
			{"GET", "/people?psid=a%1fb", "", 400, "psid"},
			{"GET", "/messages?mid=a%1fb", "", 400, "mid"},
			{"GET", "/messages?mid=a&page=a%1fb", "", 400, "page"},
			{"GET", "/broadcasts?limit=0", "", 400, "limit"},
			{"GET", "/broadcasts/a%00b", "", 400, "broadcast"},
			{"GET", "/broadcasts/none", "", 404, "broadcast"},
			{"DELETE", "/broadcasts/none", "", 404, "broadcast"},
			{"POST", "/broadcast", `{"page":"q","text":"x"}`, 404, "page"},
			{"POST", "/broadcast", `{"page":"p","room":7,"text":"x"}`, 404, "room"},
			{"POST", "/broadcast", `{"page":"p","text":"` + strings.Repeat("x", maxRequest) + `"}`, 400, "body"},
		} {
			status, answer := r.ask(t, tt.method, tt.path, tt.body)
			field := `"field":"` + tt.field + `"`
			if status != tt.status || !strings.Contains(answer, field) || !strings.Contains(answer, `"error":`) {
				t.Errorf("%s %s %.60s = %d %s, want %d that names %q", tt.method, tt.path, tt.body, status, answer, tt.status, tt.field)
			}
		}
		r.wantAnswer(t, "POST", "/broadcast", `{"page":"p","text":"x","deadline":"2000-01-03T00:00:00Z"}`, 400,
			`{"error":"deadline: must be within the next 24 hours","field":"deadline"}`)
		r.wantAnswer(t, "GET", "/broadcasts", "", 200, `{"broadcasts":[]}`)
		if _, answer := r.ask(t, "GET", "/pages", ""); strings.Contains(answer, "typo") {
			t.Errorf("GET /pages after a mistyped page = %s, want no such page", answer)
		}
	})
}

// stuckStore is a database that never lists pages.
type stuckStore struct {
	Store
	asked, most atomic.Int64
}

func (s *stuckStore) Pages(ctx context.Context, _ string, _ int) ([]rooms.PageView, error) {
	s.most.Store(max(s.most.Load(), s.asked.Add(1)))
	defer s.asked.Add(-1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSlowDatabase checks that requests to a slow database end in time, and that
// they leave its connections to events.
func TestSlowDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := newRig(t).handler.cfg
		stuck := &stuckStore{Store: cfg.Store}
		cfg.Store = stuck
		h, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/pages", nil))
				if got := strings.TrimSpace(w.Body.String()); w.Code != 503 || got != `{"error":"the database does not answer"}` {
					t.Errorf("GET /pages of a slow database = %d %s, want 503", w.Code, got)
				}
			})
		}
		group.Wait()
		if got := time.Since(begin); got != 10*time.Second {
			t.Errorf("requests to a slow database took %v, want 10s", got)
		}
		if got := stuck.most.Load(); got != 2 {
			t.Errorf("requests at a time = %d, want 2", got)
		}
	})
}

// TestPatterns checks that every endpoint is below one of the patterns.
func TestPatterns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		for _, pattern := range Patterns() {
			mux.Handle(pattern, newRig(t).handler)
		}
		for _, path := range []string{
			"/pages", "/pages/p/pause", "/pages/p/users/1/ban", "/pages/p/users/1", "/rooms", "/reports", "/broadcast", "/broadcasts", "/broadcasts/id",
		} {
			if _, pattern := mux.Handler(httptest.NewRequest(http.MethodGet, path, nil)); pattern == "" {
				t.Errorf("%s is below none of the patterns", path)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := newRig(t).handler.cfg
	for name, change := range map[string]func(*Config){
		"Store":     func(c *Config) { c.Store = nil },
		"Scheduler": func(c *Config) { c.Scheduler = nil },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New() with a wrong %s = %v, want an error that names it", name, err)
		}
	}
}
