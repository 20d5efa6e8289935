package fakeapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/web"
	"chatclub/fakeapi/webhook"
)

// TestForeignSites: nothing that a browser sends for another site's page changes
// the platform or tells of it, and its own page and programs are answered.
func TestForeignSites(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{Host: "fake.example.com"})
	if _, err := web.New(web.Config{API: a.API, Pages: []string{"1"}, Webhook: webhook.Config{URL: "http://127.0.0.1:1/", Secret: "s"}}); err != nil {
		t.Fatal(err)
	}
	base, client := a.Listen()
	ask := func(method, path, body string, header ...string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer token-1")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
			if header[i] == "Host" {
				r.Host = header[i+1]
			}
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	const asJSON, form, cross, evil = "application/json", "application/x-www-form-urlencoded", "cross-site", "https://evil.example"
	send := fakeapitest.Text("42", "1/m/42")
	changes := map[string]string{"/control": `{}`, "/ledger/reset": "", "/ledger/excuse": `{"ids":[]}`, "/phones": `{"page":"1"}`, "/v23.0/1/messages": send}
	for path, body := range changes {
		for name, header := range map[string][]string{
			"a script's text":   {"Content-Type", "text/plain", "Origin", evil, "Sec-Fetch-Site", cross},
			"a script's JSON":   {"Content-Type", asJSON, "Sec-Fetch-Site", cross},
			"a form":            {"Content-Type", form, "Origin", evil},
			"another local one": {"Content-Type", asJSON, "Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"},
			"a rebound name":    {"Content-Type", asJSON, "Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"},
		} {
			if got := ask("POST", path, body, header...); got != 403 {
				t.Errorf("POST %s as %s = %d, want 403", path, name, got)
			}
		}
		for name, header := range map[string][]string{
			"its page":    {"Content-Type", asJSON, "Origin", base, "Sec-Fetch-Site", "same-origin"},
			"curl":        {"Content-Type", asJSON},
			"its name":    {"Content-Type", asJSON, "Host", "fake.example.com:8090"},
			"a container": {"Content-Type", asJSON, "Host", "fakeapi:8090"},
		} {
			if got := ask("POST", path, body, header...); got != 200 {
				t.Errorf("POST %s as %s = %d, want 200", path, name, got)
			}
		}
		if path == "/v23.0/1/messages" { // the Send API takes forms
			continue
		}
		for _, kind := range []string{"text/plain", form} {
			if got := ask("POST", path, body, "Content-Type", kind); got != 415 {
				t.Errorf("POST %s with %s = %d, want 415", path, kind, got)
			}
		}
	}
	for _, path := range []string{"/", "/events", "/ledger", "/phones"} {
		if got := ask("GET", path, "", "Host", "evil.example", "Sec-Fetch-Site", "same-origin"); got != 403 {
			t.Errorf("GET %s of a rebound name = %d, want 403", path, got)
		}
	}
	if got := ask("DELETE", "/phones/1", "", "Sec-Fetch-Site", cross); got != 403 {
		t.Errorf("DELETE of a phone from another site = %d, want 403", got)
	}
	if got := ask("POST", "/ledger/reset", ""); got != 200 {
		t.Errorf("POST /ledger/reset without a body and type = %d, want 200", got)
	}
}
