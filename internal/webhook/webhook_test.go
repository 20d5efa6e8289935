package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"chatclub/internal/message"
	"chatclub/internal/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testSecret = "chatclub-test-secret"
	testToken  = "verify me"
)

var testTopology = queue.Topology{Prefix: "test", Partitions: 2}

// recorder is a queue.Publisher that keeps batches. If block is set, it confirms
// nothing before block is closed.
type recorder struct {
	mu      sync.Mutex
	batches [][]queue.Message
	err     error
	block   chan struct{}
}

func (r *recorder) Publish(ctx context.Context, msgs ...queue.Message) error {
	if r.block != nil {
		select {
		case <-r.block:
		case <-ctx.Done():
			return queue.ErrUnavailable
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.batches = append(r.batches, msgs)
	return nil
}

func (r *recorder) setErr(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// on returns the messages of one queue.
func (r *recorder) on(name string) []queue.Message {
	return r.all(func(m queue.Message) bool { return m.Queue == name })
}

// inbound returns the messages with events.
func (r *recorder) inbound() []queue.Message {
	return r.all(func(m queue.Message) bool { return testTopology.IsInbound(m.Queue) })
}

func (r *recorder) all(match func(queue.Message) bool) (all []queue.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.batches {
		for _, m := range b {
			if match(m) {
				all = append(all, m)
			}
		}
	}
	return all
}

type fixture struct {
	*Handler
	published *recorder
	registry  *prometheus.Registry
	log       *bytes.Buffer
}

func setup(t testing.TB, change func(*Config)) fixture {
	t.Helper()
	f := fixture{published: &recorder{}, registry: prometheus.NewPedanticRegistry(), log: &bytes.Buffer{}}
	cfg := Config{
		Broker:      f.published,
		Topology:    testTopology,
		AppSecret:   []byte(testSecret),
		VerifyToken: testToken,
		Registerer:  f.registry,
		Log:         slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.Handler = h
	return f
}

func sign(algorithm func() hash.Hash, secret string, body []byte) string {
	mac := hmac.New(algorithm, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func sign256(body []byte) string { return "sha256=" + sign(sha256.New, testSecret, body) }

// do sends a request; header is pairs of name and value.
func (f fixture) do(method, target string, body io.Reader, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, target, body)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// postSigned sends a body with its correct signature.
func (f fixture) postSigned(body string) *httptest.ResponseRecorder {
	return f.do(http.MethodPost, "/webhook", strings.NewReader(body), SignatureHeader, sign256([]byte(body)))
}

func events(t testing.TB, msgs []queue.Message) []message.Event {
	t.Helper()
	var all []message.Event
	for _, m := range msgs {
		e, err := message.DecodeEvent(m.Body)
		if err != nil {
			t.Errorf("message %s on %s: %v", m.ID, m.Queue, err)
			continue
		}
		if want := e.Page + "/" + e.ID; m.ID != want {
			t.Errorf("message id = %q, want %q", m.ID, want)
		}
		if want := testTopology.InboundOf(e.Page); m.Queue != want {
			t.Errorf("message %q is on %s, want its page's partition %s", m.ID, m.Queue, want)
		}
		all = append(all, e)
	}
	return all
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := setup(t, nil).cfg
	for name, change := range map[string]func(*Config){
		"Broker":      func(c *Config) { c.Broker = nil },
		"AppSecret":   func(c *Config) { c.AppSecret = nil },
		"VerifyToken": func(c *Config) { c.VerifyToken = "" },
		"Topology":    func(c *Config) { c.Topology.Partitions = 0 },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New() with a wrong %s = %v, want an error that names it", name, err)
		}
	}
}

func TestVerification(t *testing.T) {
	t.Parallel()
	const good = "hub.mode=subscribe&hub.verify_token=verify+me&hub.challenge=1158201444"
	rows := []struct {
		name, query string
		code        int
		body        string
	}{
		{"right", good, 200, "1158201444"},
		{"challenge is not a page", strings.Replace(good, "1158201444", "<b>x", 1), 200, "<b>x"},
		{"wrong token", strings.Replace(good, "verify+me", "verify+you", 1), 403, "forbidden\n"},
		{"longer token", strings.Replace(good, "verify+me", "verify+me+", 1), 403, "forbidden\n"},
		{"no token", "hub.mode=subscribe&hub.challenge=1", 403, "forbidden\n"},
		{"no challenge", "hub.mode=subscribe&hub.verify_token=verify+me", 400, "bad request\n"},
		{"other mode", strings.Replace(good, "subscribe", "unsubscribe", 1), 400, "bad request\n"},
		{"nothing", "", 400, "bad request\n"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, nil).do(http.MethodGet, "/webhook?"+row.query, nil)
			if w.Code != row.code || w.Body.String() != row.body {
				t.Errorf("GET ?%s = %d %q, want %d %q", row.query, w.Code, w.Body, row.code, row.body)
			}
			if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type = %q, want text/plain", got)
			}
			if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("X-Content-Type-Options = %q, want nosniff", got)
			}
		})
	}
}

func TestOtherMethods(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, "BREW"} {
		w := setup(t, nil).do(method, "/webhook", nil)
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, POST" {
			t.Errorf("%s = %d, Allow %q, want 405 and GET, POST", method, w.Code, w.Header().Get("Allow"))
		}
	}
}

const oneText = `{"object":"page","entry":[{"id":"1","time":5,"messaging":[{"sender":{"id":"2"},"recipient":{"id":"1"},"timestamp":4,"message":{"mid":"m_1","text":"streng geheim"}}]}]}`

func TestSignatureAttacks(t *testing.T) {
	t.Parallel()
	right := sign256([]byte(oneText))
	digits := strings.TrimPrefix(right, "sha256=")
	flipped := "sha256=" + string(digits[0]^1) + digits[1:]
	rows := []struct {
		name   string
		body   string
		header []string
	}{
		{"none", oneText, nil},
		{"empty", oneText, []string{SignatureHeader, ""}},
		{"prefix only", oneText, []string{SignatureHeader, "sha256="}},
		{"no prefix", oneText, []string{SignatureHeader, digits}},
		{"other prefix", oneText, []string{SignatureHeader, "sha512=" + digits}},
		{"one bit wrong", oneText, []string{SignatureHeader, flipped}},
		{"cut", oneText, []string{SignatureHeader, right[:len(right)-2]}},
		{"too long", oneText, []string{SignatureHeader, right + "00"}},
		{"not hexadecimal", oneText, []string{SignatureHeader, "sha256=" + strings.Repeat("zz", 32)}},
		{"all zero", oneText, []string{SignatureHeader, "sha256=" + strings.Repeat("0", 64)}},
		{"other secret", oneText, []string{SignatureHeader, "sha256=" + sign(sha256.New, "other", []byte(oneText))}},
		{"empty secret", oneText, []string{SignatureHeader, "sha256=" + sign(sha256.New, "", []byte(oneText))}},
		{"of another body", oneText + " ", []string{SignatureHeader, right}},
		{"SHA-1 only", oneText, []string{"X-Hub-Signature", "sha1=" + sign(sha1.New, testSecret, []byte(oneText))}},
		{"SHA-1 in the new header", oneText, []string{SignatureHeader, "sha1=" + sign(sha1.New, testSecret, []byte(oneText))}},
		{"first of two wrong", oneText, []string{SignatureHeader, flipped, SignatureHeader, right}},
		{"wrong and not JSON", "{", []string{SignatureHeader, right}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			w := f.do(http.MethodPost, "/webhook", strings.NewReader(row.body), row.header...)
			if w.Code != http.StatusForbidden {
				t.Errorf("POST = %d, want 403", w.Code)
			}
			if len(f.published.batches) != 0 {
				t.Errorf("POST published %d batches, want 0", len(f.published.batches))
			}
			if out := w.Body.String() + f.log.String(); strings.Contains(out, digits) || strings.Contains(out, "geheim") {
				t.Errorf("the signature or the text is in the answer or log: %s", out)
			}
		})
	}
}

// countingReader counts how much of a body was read.
type countingReader struct {
	io.Reader
	n int
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += n
	return n, err
}

func TestBodySizes(t *testing.T) {
	t.Parallel()
	const limit = 16 << 20 // the number of the documents, not MaxBody
	pad := func(size int) string { return oneText + strings.Repeat(" ", size-len(oneText)) }
	rows := []struct {
		name    string
		size    int
		chunked bool
		code    int
	}{
		{"at the limit", limit, false, 200},
		{"above", limit + 1, false, 413},
		{"at the limit, length unknown", limit, true, 200},
		{"above, length unknown", limit + 1, true, 413},
		{"far above, length unknown", 3 * limit, true, 413},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, nil)
			body := pad(row.size)
			read := &countingReader{Reader: strings.NewReader(body)}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhook", read)
			r.ContentLength = int64(row.size)
			if row.chunked {
				r.ContentLength = -1
			}
			r.Header.Set(SignatureHeader, sign256([]byte(body)))
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code != row.code {
				t.Errorf("POST of %d bytes = %d, want %d", row.size, w.Code, row.code)
			}
			most := limit + 1 // the last byte shows that the body is too long
			if row.code == 413 && !row.chunked {
				most = 0 // the header says that the body is too long
			}
			if read.n > most {
				t.Errorf("POST of %d bytes read %d, want at most %d", row.size, read.n, most)
			}
		})
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestClientBreaksOff(t *testing.T) {
	t.Parallel()
	w := setup(t, nil).do(http.MethodPost, "/webhook", brokenReader{}, SignatureHeader, sign256(nil))
	if w.Code != http.StatusBadRequest {
		t.Errorf("POST that breaks off = %d, want 400", w.Code)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	f := setup(t, func(c *Config) { c.Now = func() time.Time { return now } })
	f.postSigned(oneText)
	f.postSigned(strings.Replace(oneText, `"mid"`, `"is_echo":true,"mid"`, 1))
	f.postSigned(oneText)
	f.postSigned(`oi`)
	f.postSigned(`{"object":"page"}`)
	f.postSigned(`{"object":"user","entry":[]}`)
	f.do(http.MethodPost, "/webhook", strings.NewReader(oneText))
	f.do(http.MethodPut, "/webhook", nil)
	f.do(http.MethodGet, "/webhook", nil)
	f.published.setErr(queue.ErrUnavailable)
	f.postSigned(strings.Replace(oneText, "m_1", "m_2", 1)) // not counted as an event
	want := `
# HELP chatclub_webhook_events_total Events that the broker confirmed on the inbound partitions, by kind.
# TYPE chatclub_webhook_events_total counter
chatclub_webhook_events_total{kind="deletion"} 0
		chatclub_webhook_events_total{kind="message"} 1
		chatclub_webhook_events_total{kind="other"} 0
chatclub_webhook_events_total{kind="policy"} 0
chatclub_webhook_events_total{kind="postback"} 0
# HELP chatclub_webhook_in_flight POST requests that Messenger signed and that are being handled.
# TYPE chatclub_webhook_in_flight gauge
chatclub_webhook_in_flight 0
# HELP chatclub_webhook_requests_total Requests answered, by result.
# TYPE chatclub_webhook_requests_total counter
chatclub_webhook_requests_total{result="bad_method"} 1
chatclub_webhook_requests_total{result="bad_request"} 2
chatclub_webhook_requests_total{result="forbidden"} 1
chatclub_webhook_requests_total{result="not_found"} 1
chatclub_webhook_requests_total{result="ok"} 3
chatclub_webhook_requests_total{result="overloaded"} 0
chatclub_webhook_requests_total{result="repeated"} 1
chatclub_webhook_requests_total{result="too_large"} 0
chatclub_webhook_requests_total{result="too_slow"} 0
chatclub_webhook_requests_total{result="unavailable"} 1
chatclub_webhook_requests_total{result="verified"} 0
# HELP chatclub_webhook_undecodable_total Bodies, entries and events that could not be decoded and were kept on the dead-letter queue.
# TYPE chatclub_webhook_undecodable_total counter
chatclub_webhook_undecodable_total 1
`
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want),
		"chatclub_webhook_events_total", "chatclub_webhook_in_flight", "chatclub_webhook_requests_total", "chatclub_webhook_undecodable_total"); err != nil {
		t.Error(err)
	}
	if got := testutil.ToFloat64(f.metrics.skipped[SkipEcho]); got != 1 {
		t.Errorf("skipped echo = %v, want 1", got)
	}
	if problems, err := testutil.GatherAndLint(f.registry); err != nil || len(problems) > 0 {
		t.Errorf("lint = %v, %v, want none", problems, err)
	}
}
