package service

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask sends a request to /loglevel.
func ask(t *testing.T, a *Admin, method, body string, header ...string) (code int, answer string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1/loglevel", strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:40000"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// The level changes while the program runs, and goes back by itself if that was asked.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, level := NewLogger(LogSettings{Level: slog.LevelWarn}, &out)
		a := NewAdmin(AdminConfig{Log: log, LogLevel: level})
		check := func(method, body string, code int, answer string) {
			t.Helper()
			if gotCode, got := ask(t, a, method, body); gotCode != code || got != answer {
				t.Errorf("%s %s = %d %s, want %d %s", method, body, gotCode, got, code, answer)
			}
		}
		logs := func(want string) {
			t.Helper()
			out.Reset()
			log.Debug("d")
			log.Info("i")
			log.Warn("w")
			log.Error("e")
			got := ""
			for line := range strings.Lines(out.String()) {
				_, msg, _ := strings.Cut(strings.TrimSpace(line), "msg=")
				got += msg
			}
			if got != want {
				t.Errorf("logged %q, want %q", got, want)
			}
		}
		check("GET", "", 200, `{"level":"warn"}`)
		logs("we")
		check("PUT", `{"level":"debug","for":"10m"}`, 200, `{"level":"debug","until":"2000-01-01T00:10:00Z"}`)
		logs("diwe")
		time.Sleep(10 * time.Minute)
		logs("diwe")
		time.Sleep(time.Nanosecond)
		logs("we")
		check("GET", "", 200, `{"level":"warn"}`)
		check("PUT", `{"level":"info"}`, 200, `{"level":"info"}`)
		time.Sleep(100 * time.Hour)
		logs("iwe")
		out.Reset()
		check("PUT", `{"level":"ERROR"}`, 200, `{"level":"error"}`)
		if !strings.Contains(out.String(), `msg="operator's request" method=PUT path=/loglevel who=nobody`) || !strings.Contains(out.String(), `status=200 log_level=ERROR`) {
			t.Errorf("log = %q, want a line about the change, though its level hides what follows", out.String())
		}
		logs("e")
		for body, want := range map[string]string{
			``:                                "body: ",
			`debug`:                           "body: ",
			`{"level":"debug"} x`:             "body: ",
			`{"level":"debug","fore":"1m"}`:   "body: ",
			`[]`:                              "body: ",
			`{"level":7}`:                     "level: must be a string",
			`{"level":"debug","for":7}`:       "for: must be a string",
			`{"level":"loud"}`:                `level: \"loud\" is not debug, info, warn or error`,
			`{"for":"1m"}`:                    "level: ",
			`{"level":"debug","for":"soon"}`:  "for: ",
			`{"level":"debug","for":"-1m"}`:   "for: ",
			`{"level":"debug","for":"24h1s"}`: "for: ",
			`{"level":"` + strings.Repeat("x", 5000) + `"}`: "body: ",
		} {
			if code, got := ask(t, a, "PUT", body); code != 400 || !strings.HasPrefix(got, `{"error":"`+want) {
				t.Errorf("PUT %.80s = %d %s, want 400 with %s", body, code, got, want)
			}
		}
		check("GET", "", 200, `{"level":"error"}`)
		if code, _ := ask(t, a, "DELETE", ""); code != http.StatusMethodNotAllowed {
			t.Errorf("DELETE = %d, want 405", code)
		}
	})
}

// The guard of all admin pages is before this one, too.
func TestLogLevelIsGuarded(t *testing.T) {
	t.Parallel()
	log, level := NewLogger(LogSettings{}, new(bytes.Buffer))
	a := NewAdmin(AdminConfig{Log: log, LogLevel: level, Tokens: Tokens{Admin: "sesame"}})
	const body = `{"level":"debug"}`
	for _, row := range []struct {
		want   int
		header []string
	}{
		{401, nil},
		{403, []string{"Authorization", "Bearer sesame", "Sec-Fetch-Site", "cross-site"}},
		{415, []string{"Authorization", "Bearer sesame", "Content-Type", "text/plain"}},
		{200, []string{"Authorization", "Bearer sesame"}},
	} {
		code, _ := ask(t, a, "PUT", body, row.header...)
		if changed := level.Level() == slog.LevelDebug; code != row.want || changed != (code == 200) {
			t.Errorf("PUT with %v = %d, changed %t, want %d", row.header, code, changed, row.want)
		}
	}
	if code, _ := ask(t, NewAdmin(AdminConfig{Log: log}), "GET", ""); code != 404 {
		t.Errorf("GET without a level that can be changed = %d, want 404", code)
	}
}
