package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "broker away", http.StatusServiceUnavailable)
	})
	up := httptest.NewServer(mux)
	t.Cleanup(up.Close)
	down := httptest.NewServer(mux)
	down.Close()

	for _, tt := range []struct {
		name   string
		args   []string
		want   int
		reason string
	}{
		{"well", []string{up.URL + "/healthz"}, 0, ""},
		{"not ready", []string{up.URL + "/readyz"}, 1, "answers 503: broker away"},
		{"nobody listens", []string{down.URL + "/healthz"}, 1, "connection refused"},
		{"no address", nil, 2, "usage"},
		{"not an address", []string{"::"}, 1, "probe"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			if got := run(tt.args, &stderr); got != tt.want {
				t.Errorf("run(%q) = %d, want %d", tt.args, got, tt.want)
			}
			if !strings.Contains(stderr.String(), tt.reason) {
				t.Errorf("run(%q) says %q, want %q in it", tt.args, stderr.String(), tt.reason)
			}
			if tt.want == 0 && stderr.Len() > 0 {
				t.Errorf("run(%q) says %q, want nothing", tt.args, stderr.String())
			}
		})
	}
}
