package sender

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// endless is a body without an end that knows how much was read of it.
type endless struct {
	read   atomic.Int64
	closed atomic.Bool
}

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func (e *endless) Close() error {
	e.closed.Store(true)
	return nil
}

func TestAnswerIsBounded(t *testing.T) {
	t.Parallel()
	body := &endless{}
	s := setup(t, func(c *Config) {
		c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 500, Body: body}, nil
		})
	})
	r := s.Send(t.Context(), outbound())
	if r.Outcome != Transient || r.CodeString() != "http 500" {
		t.Errorf("Send = %v, %q, want transient, http 500", r.Outcome, r.CodeString())
	}
	if n := body.read.Load(); n > 64<<10 || !body.closed.Load() {
		t.Errorf("read %d bytes, closed %v, want at most 65536 and closed", n, body.closed.Load())
	}
}

func TestAnswersDoNotMix(t *testing.T) {
	t.Parallel()
	answers := []string{envelope(100, 2018001, ""), receipt, "{}", ""}
	i := 0
	s := setup(t, func(c *Config) {
		c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			i++
			return response(200, answers[i-1]), nil
		})
	})
	for n, want := range []string{"", "m_1", "", ""} { // a short answer sees nothing of a longer one before it
		if got := s.Send(t.Context(), outbound()).MessageID; got != want {
			t.Errorf("answer %d: message id = %q, want %q", n, got, want)
		}
	}
}

// Where the platform throttles the app, or a page, the pause that its headers ask for is told.
// The time of a list counts for the page that the list names, and for quotas of messages.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	app, limit := envelope(4, 0, ""), envelope(613, 0, "")
	of := func(id, rest string) string { return `{"` + id + `":[` + rest + `]}` }
	const seven = `{"type":"messenger","call_count":100,"estimated_time_to_regain_access":7}`
	for _, row := range []struct {
		name         string
		body         string
		after, usage string
		want         time.Duration
	}{
		{"nothing", app, "", "", 0},
		{"the app's, in seconds", app, "90", "", 90 * time.Second},
		{"the app's, beside a page's", app, "90", of(page, seven), 90 * time.Second},
		{"wrong headers", limit, "soon", of(page, "7"), 0},
		{"beyond all bounds", app, "99999999999999999999", "", 24 * time.Hour},
		{"negative", limit, "-1", of(page, `{"type":"messenger","estimated_time_to_regain_access":-7}`), 0},
		{"a date", app, now.Add(90 * time.Second).Format(http.TimeFormat), "", 90 * time.Second},
		{"a date that is over", app, now.Add(-time.Hour).Format(http.TimeFormat), "", 0},
		{"the page's, in seconds", limit, "90", "", 90 * time.Second},
		{"the page's, in minutes", limit, "90", of(page, seven), 7 * time.Minute},
		{"the longer one", limit, "900", of(page, seven), 15 * time.Minute},
		{"minutes beyond all bounds", limit, "", of(page, `{"type":"messenger","estimated_time_to_regain_access":999999999999999999999}`), 24 * time.Hour},
		{"another page's", limit, "", of("77", seven), 0},
		{"a page's whose id begins like this", limit, "", of(page+"0", seven), 0},
		{"of another type", limit, "", of(page, `{"type":"pages","estimated_time_to_regain_access":7}`), 0},
		{"of no type", limit, "", of(page, `{"estimated_time_to_regain_access":7}`), 0},
		{"behind others", limit, "", `{"77":[{"type":"messenger","estimated_time_to_regain_access":60}],"` + page +
			`":[{"type":"pages","estimated_time_to_regain_access":50},{"type":"instagram","estimated_time_to_regain_access":2},` + seven + `]}`, 7 * time.Minute},
		{"the id as a value before", limit, "", `{"77":[{"owner":"` + page + `"}], "` + page + `" : [ ` + seven + `]}`, 7 * time.Minute},
		{"with spaces", limit, "", `{ "` + page + `" : [ { "type": "instagram" , "estimated_time_to_regain_access": 3 } ] }`, 3 * time.Minute},
		{"cut off", limit, "", `{"` + page + `":[` + seven, 0},
		{"no list", limit, "", `{"` + page + `":` + seven + `}`, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := answered(t, now, 400, row.body, map[string]string{"Retry-After": row.after, "X-Business-Use-Case-Usage": row.usage})
			if r.RetryAfter != row.want {
				t.Errorf("RetryAfter = %v, want %v", r.RetryAfter, row.want)
			}
		})
	}
}

// answered returns the result of a call with this answer.
func answered(t *testing.T, now time.Time, status int, body string, header map[string]string) Result {
	t.Helper()
	s := setup(t, func(c *Config) {
		c.Now = func() time.Time { return now }
		c.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			resp := response(status, body)
			for name, value := range header {
				resp.Header.Set(name, value)
			}
			return resp, nil
		})
	})
	return s.Send(t.Context(), outbound())
}

// Every answer tells how full the fullest quota of the page's messages is, and the app's.
func TestUsage(t *testing.T) {
	t.Parallel()
	of := func(id, kind, rest string) string { return `"` + id + `":[{"type":"` + kind + `",` + rest + `}]` }
	for _, row := range []struct {
		page, app     string
		want, wantApp int
	}{
		{"", "", 0, 0},
		{"{" + of(page, "messenger", `"call_count":97,"total_cputime":1`) + "}", "", 97, 0},
		{"{" + of(page, "instagram", `"call_count": 31`) + "}", `{"call_count":12}`, 31, 12},
		{"{" + of(page, "messenger", `"call_count":7`) + "}", `{"call_count":112,"total_time":3}`, 7, 112},
		{"{" + of("1", "messenger", `"call_count":99`) + "," + of(page, "messenger", `"call_count":31`) + "}", "", 31, 0},
		{"{" + of("1", "messenger", `"call_count":99`) + "}", "", 0, 0},
		{"{" + of(page, "ads_management", `"call_count":99`) + "}", "", 0, 0},
		{"{" + of(page, "messenger", `"call_count":-7`) + "}", "call_count", 0, 0},
		{"{" + of(page, "messenger", `"call_count":99999999999999999999999`) + "}", `{"call_count":99999999999999999999999}`, 1000, 1000},
	} {
		r := answered(t, time.Now(), 200, receipt, map[string]string{"X-Business-Use-Case-Usage": row.page, "X-App-Usage": row.app})
		if r.Outcome != Sent || r.Usage != row.want || r.AppUsage != row.wantApp {
			t.Errorf("headers %q and %q: usage %d, the app's %d, want %d and %d", row.page, row.app, r.Usage, r.AppUsage, row.want, row.wantApp)
		}
	}
}

// Whatever a header says, the numbers that are read of it are within their bounds.
func FuzzPageQuota(f *testing.F) {
	f.Add(`{"` + page + `":[{"type":"messenger","call_count":1,"estimated_time_to_regain_access":9}]}`)
	f.Add(`{"` + page + `":[{"type":"messenger"`)
	f.Add(`"` + page + `"` + `"` + page + `":[}]`)
	f.Fuzz(func(t *testing.T, header string) {
		if percent, minutes := pageQuota(header, page); percent < 0 || percent > 1000 || minutes < 0 || minutes > 1440 {
			t.Errorf("pageQuota(%q) = %d, %d", header, percent, minutes)
		}
	})
}
