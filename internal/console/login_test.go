package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/service"
)

// enter logs in and returns the session's cookie.
func enter(t *testing.T, url, password string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/login", strings.NewReader(`{"password":"`+password+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent || len(resp.Cookies()) != 1 {
		t.Fatalf("POST /login = %d with %v, want 204 and a cookie", resp.StatusCode, resp.Cookies())
	}
	c := resp.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.MaxAge != 12*60*60 {
		t.Errorf("cookie = %s, want it HttpOnly, SameSite=Strict, for 12 hours", c.Raw)
	}
	return c.Name + "=" + c.Value
}

// visit asks a handler without a socket.
func visit(t *testing.T, h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// guarded is a console with a password, behind the guard that the program puts
// before it.
func guarded(t *testing.T, log *slog.Logger) http.Handler {
	t.Helper()
	k, err := New(Config{Replicas: func(context.Context) []Replica { return nil }, Token: "sesame", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return service.NewGuard(k.Handler(), service.GuardConfig{Log: log})
}

// TestLogin: without the password nothing is shown or done, and with it everything
// is, until the session ends.
func TestLogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := guarded(t, slog.New(slog.NewTextHandler(&log, nil)))
		asJSON := []string{"Content-Type", "application/json"}
		for _, row := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"GET", "/", "", 200, `<form id="login"`},
			{"GET", "/web/login.js", "", 200, "fetch"},
			{"GET", "/favicon.ico", "", 200, "<svg"},
			{"GET", "/state", "", 200, "event: login"},
			{"GET", "/dead", "", 401, "log in first"},
			{"POST", "/actions/pause", `{"page":"1"}`, 401, "log in first"},
			{"POST", "/dead/purge", `{"before":"2026-01-01T00:00:00Z"}`, 401, "log in first"},
			{"POST", "/login", `{}`, 401, "this is not the password: it is the value of ADMIN_TOKEN"},
			{"POST", "/login", `{"password":"Sesame"}`, 401, "this is not the password"},
			{"POST", "/login", `sesame`, 400, "password: must be given"},
		} {
			w := visit(t, h, row.method, row.path, row.body, asJSON...)
			if w.Code != row.status || !strings.Contains(w.Body.String(), row.want) || strings.Contains(w.Body.String(), "read_only") {
				t.Errorf("%s %s %s = %d %.200s, want %d and %q", row.method, row.path, row.body, w.Code, w.Body, row.status, row.want)
			}
		}
		if !strings.Contains(log.String(), "wrong token or password") || strings.Contains(log.String(), "Sesame") {
			t.Errorf("log = %s, want the wrong password noted and not told", &log)
		}

		w := visit(t, h, "POST", "/login", `{"password":"sesame"}`, asJSON...)
		cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
		in := append([]string{"Cookie", cookie}, asJSON...)
		got := func() int { return visit(t, h, "POST", "/actions/nosuch", `{}`, in...).Code }
		if code := got(); code != 404 {
			t.Errorf("an action with the session = %d, want 404: there is none of this name", code)
		}
		if w := visit(t, h, "GET", "/", "", in...); !strings.Contains(w.Body.String(), `id="dispatchers"`) {
			t.Errorf("GET / with the session = %.200s, want the page", w.Body)
		}
		for _, forged := range []string{"=", "=x", cookie[strings.Index(cookie, "="):] + "x", cookie[strings.Index(cookie, "=") : len(cookie)-1]} {
			if w := visit(t, h, "POST", "/actions/nosuch", `{}`, append([]string{"Cookie", cookieName + forged}, asJSON...)...); w.Code != 401 {
				t.Errorf("an action with a forged session %s = %d, want 401", forged, w.Code)
			}
		}
		if w := visit(t, guarded(t, nil), "POST", "/actions/nosuch", `{}`, in...); w.Code != 401 {
			t.Errorf("an action with the session of another process = %d, want 401", w.Code)
		}
		time.Sleep(sessionTime - time.Second)
		if code := got(); code != 404 {
			t.Errorf("an action before the session's end = %d, want 404", code)
		}
		time.Sleep(time.Second)
		if code := got(); code != 401 {
			t.Errorf("an action after 12 hours = %d, want 401", code)
		}
		if w := visit(t, h, "POST", "/logout", "", in...); w.Code != 204 || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("POST /logout = %d %v, want 204 and the cookie removed", w.Code, w.Header())
		}
	})
}

// TestSessions: two logins are two sessions, also in the same moment, and a logout ends one
// of them for good.
func TestSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := guarded(t, slog.New(slog.NewTextHandler(&log, nil)))
		asJSON := []string{"Content-Type", "application/json"}
		login := func() []string {
			cookie, _, _ := strings.Cut(visit(t, h, "POST", "/login", `{"password":"sesame"}`, asJSON...).Header().Get("Set-Cookie"), ";")
			return append([]string{"Cookie", cookie}, asJSON...)
		}
		act := func(session []string) int { return visit(t, h, "POST", "/actions/nosuch", `{}`, session...).Code }
		one, other := login(), login()
		if one[1] == other[1] {
			t.Errorf("two logins have the cookie %s, want one each", one[1])
		}
		visit(t, h, "POST", "/logout", "", one...)
		if a, b := act(one), act(other); a != 401 || b != 404 {
			t.Errorf("after a logout its session is answered %d, and the other one %d, want 401 and 404", a, b)
		}
		if stream := visit(t, h, "GET", "/state", "", one...).Body.String(); stream != loginEvent {
			t.Errorf("the stream after a logout = %.100s, want it to lead to the login", stream)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		names := make(map[string]int)
		for i, want := range []string{"path=/login who=nobody from=192.0.2.1:1234 status=204", "path=/login ", "path=/logout ", "path=/actions/nosuch "} {
			_, name, _ := strings.Cut(lines[i], " session=")
			if name, _, _ = strings.Cut(name, " "); !strings.Contains(lines[i], want) || len(name) != shownSession || strings.Contains(one[1], name) {
				t.Errorf("line %d of the log = %s, want %s and a name of its session that is not its cookie", i, lines[i], want)
			}
			names[name]++
		}
		if len(lines) != 4 || len(names) != 2 {
			t.Errorf("log = %s, want four lines about two sessions, and none about the ended one", &log)
		}
		time.Sleep(time.Second)
		for range maxSessions {
			login()
		}
		if code := act(other); code != 401 {
			t.Errorf("the oldest session of %d = %d, want 401: it made room", maxSessions+1, code)
		}
	})
}

// TestGuessing: wrong passwords get four answers a second, and the right one is answered
// at once, also beside them.
func TestGuessing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := guarded(t, nil)
		try := func(password string) int {
			body, _ := json.Marshal(map[string]string{"password": password})
			return visit(t, h, "POST", "/login", string(body), "Content-Type", "application/json").Code
		}
		began := time.Now()
		if code := try("sesame"); code != 204 || time.Since(began) != 0 {
			t.Errorf("the right password = %d after %s, want 204 at once", code, time.Since(began))
		}
		var mu sync.Mutex
		codes := make(map[int]int)
		var guesses sync.WaitGroup
		for i := range 20 {
			guesses.Go(func() {
				code := try(fmt.Sprint(i))
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		synctest.Wait()
		for range 48 {
			if code := try("sesame"); code != 204 || time.Since(began) != 0 {
				t.Errorf("the right password beside wrong ones = %d after %s, want 204 at once", code, time.Since(began))
			}
		}
		guesses.Wait()
		if took := time.Since(began); codes[401] != 4 || codes[429] != 16 || took != time.Second {
			t.Errorf("20 guesses at once = %v after %s, want four 401 after a second and 16 429", codes, took)
		}
	})
}
