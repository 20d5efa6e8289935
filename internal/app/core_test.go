package app

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"chatclub/internal/phrase"
	"chatclub/internal/rooms"
	"chatclub/internal/service"
)

// runCore runs a core with rooms of two.
func runCore(t *testing.T, database string, opt Options) running {
	t.Helper()
	p, err := NewCore(t.Context(), CoreConfig{
		Settings: load[CoreSettings](t, "DATABASE_URL", database, "PARTITIONS", "1", "ROOM_CAPACITY", "2"), Options: opt,
	})
	if err != nil {
		t.Fatal(err)
	}
	return run(t, p)
}

// TestDatabaseAway: the program starts, waits, and says so.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	r := runCore(t, "postgres://u:"+password+"@127.0.0.1:1/d?sslmode=disable", opt)
	code, body := get(t, r.admin+"/readyz")
	for strings.Contains(body, "core has not started") { // the admin server starts beside core
		code, body = get(t, r.admin+"/readyz")
	}
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "database") || strings.Contains(body, password) {
		t.Errorf("GET /readyz without a database = %d %q, want 503 that names it without the password", code, body)
	}
	if code, _ := get(t, r.admin+"/healthz"); code != http.StatusOK {
		t.Errorf("GET /healthz without a database = %d, want 200", code)
	}
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestBadDatabaseURL(t *testing.T) {
	t.Parallel()
	s := load[CoreSettings](t, "DATABASE_URL", "postgres://u:"+password+"@h:port/d")
	_, err := NewCore(t.Context(), CoreConfig{Settings: s})
	var settings *service.SettingsError
	if !errors.As(err, &settings) || !strings.Contains(err.Error(), "DATABASE_URL") || strings.Contains(err.Error(), password) {
		t.Errorf("NewCore with a bad DATABASE_URL = %v, want a settings error that names it without the password", err)
	}
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	for _, name := range phrase.Languages() {
		if l := load[CoreSettings](t, "LANGUAGE", name).Language; string(l) != name {
			t.Errorf("LANGUAGE=%s is %q", name, l)
		}
	}
	for list, want := range map[string]Language{
		"en_US:en": "en", "C.UTF-8": "en", "de_DE": "en", "de_DE:pt_BR.UTF-8:en": "pt", "es-419": "es", "ES@euro": "es", "C:fr:": "en",
	} {
		if l := load[CoreSettings](t, "LANGUAGE", list).Language; l != want {
			t.Errorf("LANGUAGE=%s is %q, want %q", list, l, want)
		}
	}
}

// The bounds in the description are those that Validate checks.
func TestRoomCapacityIsDescribed(t *testing.T) {
	t.Parallel()
	for _, row := range service.Table[CoreSettings]() {
		if bounds := fmt.Sprintf("2 to %d;", rooms.MaxCapacity); row.Name == "ROOM_CAPACITY" && !strings.Contains(row.Meaning, bounds) {
			t.Errorf("ROOM_CAPACITY means %q, want %q in it", row.Meaning, bounds)
		}
	}
}
