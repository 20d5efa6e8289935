package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"chatclub/internal/service"
)

func TestDispatcherWithoutPagesFile(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	missing := filepath.Join(t.TempDir(), "none.json")
	_, err := NewDispatcher(t.Context(), DispatcherConfig{Settings: load[DispatcherSettings](t, "PAGES_FILE", missing), Options: opt})
	var settings *service.SettingsError
	if !errors.As(err, &settings) || !strings.Contains(err.Error(), "PAGES_FILE") || !strings.Contains(err.Error(), missing) {
		t.Errorf("NewDispatcher without its pages file = %v, want a settings error that names PAGES_FILE and %s", err, missing)
	}
}
