package audit

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pad is what is logged by any goroutine.
type pad struct {
	mu sync.Mutex
	bytes.Buffer
}

func (p *pad) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Buffer.Write(b)
}

// book returns a Trail, and a function that returns the lines since it was called last,
// sorted and without time and level.
func book() (*Trail, func() []string) {
	var out pad
	log := slog.New(slog.NewTextHandler(&out, nil))
	return NewTrail(log), func() (lines []string) {
		out.mu.Lock()
		defer out.mu.Unlock()
		for line := range strings.Lines(out.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), "msg=")
			lines = append(lines, line)
		}
		out.Reset()
		slices.Sort(lines)
		return lines
	}
}

func request(t *testing.T, method, path, from string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, http.NoBody)
	r.RemoteAddr = from
	return r
}

func TestTrail(t *testing.T) {
	t.Parallel()
	trail, lines := book()
	answer := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			Note(r.Context(), slog.String("page", "1"), slog.Int("count", 3))
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			if status != http.StatusOK {
				w.WriteHeader(status)
			}
			_, _ = w.Write(nil)
		})
	}
	const begin, end = `"operator's request" method=`, ` path=/pages/1/x who=T from=10.0.0.7:1 status=`
	for _, row := range []struct {
		method string
		status int
		want   string // the line; "": none
	}{
		{"GET", 200, ""},
		{"HEAD", 200, ""},
		{"POST", 200, begin + "POST" + end + "200 page=1 count=3"},
		{"PUT", 204, begin + "PUT" + end + "204 page=1 count=3"},
		{"DELETE", 404, begin + "DELETE" + end + "404 page=1 count=3"},
		{"ODD", 503, begin + "ODD" + end + "503 page=1 count=3"},
		{"POST", 0, begin + "POST" + end + "500 page=1 count=3"},
		{"POST", 401, ""},
		{"POST", 429, ""},
	} {
		func() {
			defer func() { _ = recover() }()
			trail.Serve(httptest.NewRecorder(), request(t, row.method, "/pages/1/x", "10.0.0.7:1"), "T", false, answer(row.status))
		}()
		var want []string
		if row.want != "" {
			want = []string{row.want}
		}
		if diff := cmp.Diff(want, lines()); diff != "" {
			t.Errorf("lines of %s answered %d (-want +got):\n%s", row.method, row.status, diff)
		}
	}
	Note(t.Context(), slog.Int("beside", 1)) // a request without a Trail

	var out bytes.Buffer
	quiet := NewTrail(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	quiet.Serve(httptest.NewRecorder(), request(t, "POST", "/x", "10.0.0.7:1"), "T", false, answer(200))
	if out.Len() > 0 {
		t.Errorf("a log of warnings has %s, want nothing", &out)
	}
}

// TestSums: requests that are many have one line a minute for each address, with the sums
// of their counts. Many addresses share one.
func TestSums(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trail, lines := book()
		post := func(from string, status int) {
			trail.Serve(httptest.NewRecorder(), request(t, "POST", "/messages", from), "M", true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				Note(r.Context(), slog.Int("messages", 10))
				w.WriteHeader(status)
			}))
		}
		for i := range 500 {
			post(fmt.Sprint("10.0.0.7:", i+1), 202)
		}
		post("10.0.0.8:1", 202)
		post("10.0.0.8:2", 429)
		time.Sleep(sumEvery - time.Second)
		if got := lines(); got != nil {
			t.Errorf("lines within the minute = %q, want none", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		const begin = `"requests of the last minute" path=/messages who=M from=`
		want := []string{
			begin + "10.0.0.7 status=202 requests=500 messages=5000",
			begin + "10.0.0.8 status=202 requests=1 messages=10",
			begin + "10.0.0.8 status=429 requests=1 messages=10",
		}
		if diff := cmp.Diff(want, lines()); diff != "" {
			t.Errorf("lines after the minute (-want +got):\n%s", diff)
		}
		time.Sleep(10 * sumEvery)
		if got := lines(); got != nil {
			t.Errorf("lines of minutes without requests = %q, want none", got)
		}
		for i := range 2 * maxSums {
			post(fmt.Sprintf("10.0.%d.1:1", i), 202)
		}
		trail.Flush()
		if got := lines(); len(got) != maxSums+1 || !slices.Contains(got, fmt.Sprintf("%sothers status=202 requests=%d messages=%d", begin, maxSums, 10*maxSums)) {
			t.Errorf("lines of %d addresses = %d, want %d, and one about others: %q", 2*maxSums, len(got), maxSums, got)
		}
	})
}
