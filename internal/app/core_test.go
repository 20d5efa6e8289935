package app

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/phrase"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
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

// TestOrderedLimitsBoundMessages checks that one message takes a part of the limits that its
// page has by order.
func TestOrderedLimitsBoundMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, opt := given(t)
		s := load[CoreSettings](t, "DATABASE_URL", "sqlite::memory:", "PARTITIONS", "2")
		s.Admin.Addr = ""
		p, err := NewCore(t.Context(), CoreConfig{Settings: s, Options: opt})
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, p)
		order := orders.Order{Kind: orders.Limit, Page: "p", Limits: message.Limits{Text: 1}}
		if err := orders.Give(t.Context(), b, order); err != nil {
			t.Fatal(err)
		}
		for i, text := range []string{"hi", "hello", strings.Repeat("word ", 1500)} {
			time.Sleep(time.Minute) // allowances are full
			ev := message.Event{Kind: message.KindMessage, Page: "p", ID: strconv.Itoa(i), User: strconv.Itoa(i % 2), Time: time.Now().UnixMilli(), Text: text}
			body, err := ev.Encode()
			if err == nil {
				err = b.Publish(t.Context(), queue.Message{Queue: b.Topology().InboundOf("p"), ID: "p/" + ev.ID, Body: body})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		var copies []string
		for _, m := range memorytest.Drain(t, b, b.Topology().OutboundOf("p")) {
			o, err := message.DecodeOutbound(m.Body)
			if err != nil {
				t.Fatal(err)
			}
			if o.Priority() == message.PriorityCopy {
				copies = append(copies, o.ID)
			}
		}
		if diff := cmp.Diff([]string{"p/1/0"}, copies); diff != "" {
			t.Errorf("copies of two short texts and a long one: -want +got\n%s", diff)
		}
		if err := r.stop(); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
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
