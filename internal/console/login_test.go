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
	return service.Guard(k.Handler(), "", "")
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
		if !strings.Contains(log.String(), "wrong password") || strings.Contains(log.String(), "Sesame") {
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
		forged := strings.Replace(cookie, "=9", "=19", 1) // a later end under the same signature
		if w := visit(t, h, "POST", "/actions/nosuch", `{}`, append([]string{"Cookie", forged}, asJSON...)...); forged == cookie || w.Code != 401 {
			t.Errorf("an action with a forged session %s = %d, want 401", forged, w.Code)
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

// TestGuessing: wrong passwords get four answers a second, and the right one is answered
// at once.
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
		guesses.Wait()
		if took := time.Since(began); codes[401] != 4 || codes[429] != 16 || took != time.Second {
			t.Errorf("20 guesses at once = %v after %s, want four 401 after a second and 16 429", codes, took)
		}
	})
}
