package service

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestGuard: what a page in a browser can make it send is refused, and what
// operators' programs and Prometheus send is served.
func TestGuard(t *testing.T) {
	t.Parallel()
	const token = "sesame"
	send := func(a *Admin, method, url, body string, header ...string) int {
		var sent io.Reader = http.NoBody
		if body != "" {
			sent = strings.NewReader(body)
		}
		r := httptest.NewRequestWithContext(t.Context(), method, url, sent)
		r.RemoteAddr = "127.0.0.1:40000"
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		return w.Code
	}
	admin := func(token Secret) *Admin {
		a := NewAdmin(AdminConfig{Addr: "admin.example.com:9090", Registry: NewRegistry(), Tokens: Tokens{Admin: token}})
		a.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		return a
	}
	open, closed := admin(""), admin(token)
	const here, foreign, asJSON = "http://127.0.0.1:9090/change", "http://evil.example/change", "application/json"
	for _, row := range []struct {
		name, method, url, body string
		header                  []string
		want                    int // without a token
	}{
		{"curl with JSON", "POST", here, `{}`, []string{"Content-Type", asJSON}, 204},
		{"curl with JSON and a charset", "POST", here, `{}`, []string{"Content-Type", asJSON + "; charset=utf-8"}, 204},
		{"curl without a body", "POST", here, "", nil, 204},
		{"curl -X DELETE", "DELETE", here, "", nil, 204},
		{"GET", "GET", here, "", nil, 204},
		{"a page of ours", "POST", here, `{}`, []string{"Content-Type", asJSON, "Origin", "http://127.0.0.1:9090", "Sec-Fetch-Site", "same-origin"}, 204},
		{"a container's name", "POST", "http://core:9090/change", `{}`, []string{"Content-Type", asJSON}, 204},
		{"IPv6", "GET", "http://[::1]:9090/change", "", nil, 204},
		{"localhost", "GET", "http://LocalHost/change", "", nil, 204},
		{"below localhost", "GET", "http://core.localhost:9090/change", "", nil, 204},
		{"the name in ADMIN_ADDR", "GET", "http://admin.example.com:9090/change", "", nil, 204},

		{"a script's simple request", "POST", here, `{}`, []string{"Content-Type", "text/plain", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
		{"a script's JSON", "POST", here, `{}`, []string{"Content-Type", asJSON, "Sec-Fetch-Site", "cross-site"}, 403},
		{"another port of this machine", "POST", here, `{}`, []string{"Content-Type", asJSON, "Sec-Fetch-Site", "same-site"}, 403},
		{"a form without fields", "POST", here, "", []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "https://evil.example"}, 403},
		{"a sandboxed frame", "POST", here, "", []string{"Origin", "null"}, 403},
		{"an old browser's form without fields", "POST", here, "", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"an old browser's form", "POST", here, "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"text", "POST", here, `{}`, []string{"Content-Type", "text/plain"}, 415},
		{"a body of no type", "POST", here, `{}`, nil, 415},
		{"two types", "POST", here, `{}`, []string{"Content-Type", "text/plain, application/json"}, 415},
		{"a picture in a page of another site", "GET", here, "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, 403},
		{"a link of another site", "GET", here, "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		{"a link of another site to the page", "GET", "http://127.0.0.1:9090/", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 204},
		{"a frame in a page of another site", "GET", "http://127.0.0.1:9090/", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"an address that is typed", "GET", here, "", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, 204},
		{"rebinding", "GET", foreign, "", []string{"Sec-Fetch-Site", "same-origin"}, 403},
		{"rebinding with JSON", "POST", "http://evil.example:9090/change", `{}`, []string{"Content-Type", asJSON, "Origin", "http://evil.example:9090", "Sec-Fetch-Site", "same-origin"}, 403},
		{"a name that looks like ours", "GET", "http://127.0.0.1.evil.example/change", "", nil, 403},
		{"a top-level domain", "GET", "http://ai./change", "", nil, 403},
	} {
		if got := send(open, row.method, row.url, row.body, row.header...); got != row.want {
			t.Errorf("%s = %d, want %d", row.name, got, row.want)
		}
		if got := send(closed, row.method, row.url, row.body, row.header...); row.want == 204 && got != 401 || got < 400 {
			t.Errorf("%s without the token = %d, want 401", row.name, got)
		}
		if got := send(closed, row.method, row.url, row.body, append(row.header, "Authorization", "Bearer "+token)...); row.want == 204 && got != 204 {
			t.Errorf("%s with the token = %d, want 204", row.name, got)
		}
	}
	if got := send(closed, "GET", "http://core.example.org/change", "", "Authorization", "bearer "+token); got != 204 {
		t.Errorf("GET with the token under another name = %d, want 204", got)
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		if got := send(closed, "GET", "http://core.example.org"+path, ""); got != 200 {
			t.Errorf("GET %s under another name without the token = %d, want 200", path, got)
		}
	}
	if got := send(admin(""), "GET", "http://evil.example/debug/pprof/", ""); got != 403 {
		t.Errorf("GET /debug/pprof/ under a foreign name = %d, want 403", got)
	}
}

func TestCheckToken(t *testing.T) {
	t.Parallel()
	for token, ok := range map[Secret]bool{"": true, "open-sesame-open": true, "open-sesame-ope": false, " open-sesame-open": false, "open-ses\name-open": false, "open-sésame-open": false} {
		if err := CheckToken("ADMIN_TOKEN", token); (err == nil) != ok || err != nil && strings.Contains(err.Error(), token.Reveal()) {
			t.Errorf("CheckToken(%q) = %v, want ok %v and no token", token.Reveal(), err, ok)
		}
	}
}

// TestOtherMachines: without a token they are told nothing but the metrics and whether
// the program lives.
func TestOtherMachines(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		from, path string
		token      Secret
		want       int
	}{
		{"127.0.0.1:4000", "/change", "", 204},
		{"[::1]:4000", "/change", "", 204},
		{"[::ffff:127.0.0.1]:4000", "/change", "", 204},
		{"10.0.0.7:4000", "/change", "", 403},
		{"[fe80::1%eth0]:4000", "/change", "", 403},
		{"", "/change", "", 403},
		{"10.0.0.7:4000", "/metrics", "", 200},
		{"10.0.0.7:4000", "/healthz", "", 200},
		{"10.0.0.7:4000", "/readyz", "", 200},
		{"10.0.0.7:4000", "/change", "sesame", 204},
	} {
		a := NewAdmin(AdminConfig{Registry: NewRegistry(), Tokens: Tokens{Admin: row.token}})
		a.Handle("/change", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:9090"+row.path, http.NoBody)
		r.RemoteAddr = row.from
		if row.token != "" {
			r.Header.Set("Authorization", "Bearer "+row.token.Reveal())
		}
		w := httptest.NewRecorder()
		if a.Handler().ServeHTTP(w, r); w.Code != row.want {
			t.Errorf("%s from %q with token %v = %d, want %d", row.path, row.from, row.token != "", w.Code, row.want)
		}
	}
}
