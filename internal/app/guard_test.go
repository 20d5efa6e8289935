package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"chatclub/internal/sender"
	"chatclub/internal/service"
)

// TestAdminGuard: no program takes a change from a page in a browser, or without
// the token where there is one.
func TestAdminGuard(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]func(t *testing.T, opt Options, token string) (*Program, error){
		"webhook": func(t *testing.T, opt Options, token string) (*Program, error) {
			t.Helper()
			return NewWebhook(t.Context(), WebhookConfig{Settings: load[WebhookSettings](t, "ADMIN_TOKEN", token, "APP_SECRET", "s", "VERIFY_TOKEN", "v"), Options: opt})
		},
		"core": func(t *testing.T, opt Options, token string) (*Program, error) {
			t.Helper()
			return NewCore(t.Context(), CoreConfig{Settings: load[CoreSettings](t, "DATABASE_URL", "sqlite::memory:", "ADMIN_TOKEN", token), Options: opt})
		},
		"dispatcher": func(t *testing.T, opt Options, token string) (*Program, error) {
			t.Helper()
			return NewDispatcher(t.Context(), DispatcherConfig{
				Settings: load[DispatcherSettings](t, "ADMIN_TOKEN", token, "PAGES_FILE", "none.json"), Options: opt, Tokens: sender.StaticTokens(nil),
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, token := range []string{"", "sesame"} {
				_, opt := given(t)
				opt.LogLevel = new(service.LogLevel)
				p, err := program(t, opt, token)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = p.Close() })
				ask := func(host string, header ...string) int {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+"/pages/1/resume", strings.NewReader("{}"))
					r.Header.Set("Content-Type", "application/json")
					for i := 0; i < len(header); i += 2 {
						r.Header.Set(header[i], header[i+1])
					}
					w := httptest.NewRecorder()
					p.admin.Handler().ServeHTTP(w, r)
					return w.Code
				}
				if status := levelStatus(t, p, token); status != 200 {
					t.Errorf("PUT /loglevel with the token = %d, want 200", status)
				}
				if status := levelStatus(t, p, "wrong"); token != "" && status != 401 {
					t.Errorf("PUT /loglevel with a wrong token = %d, want 401", status)
				}
				own, bare := p.AdminAddr(), http.StatusForbidden
				if token != "" {
					bare = http.StatusUnauthorized
				}
				for _, row := range []struct {
					what string
					got  int
					want int
				}{
					{"cross-site", ask(own, "Sec-Fetch-Site", "cross-site"), 403},
					{"foreign origin", ask(own, "Origin", "https://evil.example"), 403},
					{"text/plain", ask(own, "Content-Type", "text/plain"), 415},
					{"form", ask(own, "Content-Type", "application/x-www-form-urlencoded"), 415},
					{"rebinding", ask("evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"), bare},
				} {
					if row.got != row.want {
						t.Errorf("%s = %d, want %d", row.what, row.got, row.want)
					}
				}
				// Beyond the guard; webhook has no such page.
				if got := ask(own, "Authorization", "Bearer "+token); got != 404 && (got != 503 || name != "core") {
					t.Errorf("resume by curl = %d, want 404, or 503 of core without its tables", got)
				}
			}
		})
	}
}

// levelStatus is the status of a change of the log's level.
func levelStatus(t *testing.T, p *Program, token string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+p.AdminAddr()+"/loglevel", strings.NewReader(`{"level":"debug"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	p.admin.Handler().ServeHTTP(w, r)
	return w.Code
}
