package app

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestDispatcherWithoutPagesFile(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	missing := filepath.Join(t.TempDir(), "none.json")
	_, err := NewDispatcher(t.Context(), DispatcherConfig{Settings: load[DispatcherSettings](t, "PAGES_FILE", missing), Options: opt})
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("NewDispatcher without its pages file = %v, want an error that names %s", err, missing)
	}
}
