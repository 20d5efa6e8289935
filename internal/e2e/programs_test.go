package e2e

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/tools/program"
)

// programs are all of ours that run until they are stopped, with the settings that each
// needs to start.
func programs(t *testing.T) map[string]map[string]string {
	t.Helper()
	return map[string]map[string]string{
		"webhook":    {"AMQP_URL": "amqp://127.0.0.1:1", "APP_SECRET": "x", "VERIFY_TOKEN": "x"},
		"core":       {"AMQP_URL": "amqp://127.0.0.1:1", "DATABASE_URL": "mysql://u:streng-geheim@h/d"},
		"dispatcher": {"AMQP_URL": "amqp://127.0.0.1:1", "PAGES_FILE": "none.json"},
		"fakeapi":    {},
		"chatclub":   {},
	}
}

// output runs a program that ends by itself.
func output(t *testing.T, name string, environ map[string]string, args ...string) (text string, code int) {
	t.Helper()
	dir := t.TempDir()
	r, _ := program.Run(t.Context(), program.Command{ // the exit code says what the error would
		Path: filepath.Join(binDir, name), Args: args, Dir: dir, Env: append(program.Environ(environ), "HOME="+dir),
	})
	return r.Stdout + r.Stderr, r.Code
}

func TestHelpListsSettings(t *testing.T) {
	t.Parallel()
	for name := range programs(t) {
		text, code := output(t, name, nil, "-h")
		if code != 0 {
			t.Errorf("%s -h: exit code %d, want 0", name, code)
		}
		for _, want := range []string{"ADMIN_ADDR", "LOG_LEVEL", "HTTP_ADDR"} {
			if want == "HTTP_ADDR" && (name == "core" || name == "dispatcher") {
				want = "QUEUE_PREFIX"
			}
			if !strings.Contains(text, want) {
				t.Errorf("%s -h does not list %s:\n%s", name, want, text)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, name := range append(slices.Sorted(maps.Keys(programs(t))), "chatclubctl") {
		text, code := output(t, name, nil, "-version")
		if code != 0 || !strings.HasPrefix(text, name+" ") || !strings.Contains(text, ", "+runtime.Version()) {
			t.Errorf("%s -version = %d %q, want 0 and its name, version, revision and Go", name, code, text)
		}
	}
}

func TestWrongSettingsAreAllNamedInOneLine(t *testing.T) {
	t.Parallel()
	for name, environ := range programs(t) {
		environ["ADMIN_ADDR"] = "nowhere"
		environ["LOG_LEVEL"] = "loud"
		text, code := output(t, name, environ)
		if code != 2 {
			t.Errorf("%s with wrong settings: exit code %d, want 2", name, code)
		}
		if strings.Count(text, "\n") != 1 || !strings.Contains(text, "ADMIN_ADDR") || !strings.Contains(text, "LOG_LEVEL") {
			t.Errorf("%s with wrong settings says %q, want one line that names ADMIN_ADDR and LOG_LEVEL", name, text)
		}
		if strings.Contains(text, "streng-geheim") {
			t.Errorf("%s with wrong settings prints a password: %q", name, text)
		}
	}
}

// The operator's tool lists its commands, and each command its settings.
func TestToolListsCommandsAndSettings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"-h", []string{"why PAGE|ID", "dead list", "pages resume PAGE", "broadcast start PAGE"}},
		{"why -h", []string{"DISPATCHERS", "CORE", "ADMIN_TOKEN"}},
		{"dead replay -h", []string{"AMQP_URL", "QUEUE_PREFIX", "PARTITIONS", "-rate"}},
		{"pages list -h", []string{"DISPATCHERS", "CORE"}},
		{"broadcast start -h", []string{"CORE", "-text"}},
	} {
		text, code := output(t, "chatclubctl", nil, strings.Fields(tc.args)...)
		if code != 0 {
			t.Errorf("chatclubctl %s: exit code %d, want 0", tc.args, code)
		}
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("chatclubctl %s does not list %s:\n%s", tc.args, want, text)
			}
		}
	}
	text, code := output(t, "chatclubctl", map[string]string{"CORE": "nowhere", "DISPATCHERS": "neither"}, "pages", "list")
	if code != 2 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "CORE") || !strings.Contains(text, "DISPATCHERS") {
		t.Errorf("chatclubctl pages list with wrong settings = %d %q, want 2 and one line that names CORE and DISPATCHERS", code, text)
	}
}

// Programs that wait for their broker are alive and not ready, take no events, log no
// secret, and end with 0 when they are asked to.
func TestProgramsWithoutBroker(t *testing.T) {
	t.Parallel()
	const hidden = "streng-geheim"
	pages := filepath.Join(t.TempDir(), "pages.json")
	if err := os.WriteFile(pages, []byte(`{"1":"`+hidden+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	hook := freeAddr(t)
	var all []*process
	for name, environ := range map[string]map[string]string{
		"webhook":    {"HTTP_ADDR": hook, "APP_SECRET": hidden, "VERIFY_TOKEN": hidden, "PUBLISH_TIMEOUT": "50ms"},
		"core":       {"DATABASE_URL": "sqlite:" + t.TempDir() + "/core.db"},
		"dispatcher": {"PAGES_FILE": pages},
	} {
		environ["AMQP_URL"] = "amqp://guest:" + hidden + "@127.0.0.1:1/" // nothing listens there
		p := start(t, name, environ)
		all = append(all, p)
		notReady(t, p)
		if name == "webhook" {
			body := said("1", "2", "m_1", "hello")
			if code, err := postJSON("http://"+hook+"/webhook", body, signed(hidden, body)); err != nil || code != http.StatusServiceUnavailable {
				t.Errorf("POST = %d, %v, want 503", code, err)
			}
		}
		p.Ask()
	}
	for _, p := range all {
		p.WantEnd(t, 25*time.Second)
		if strings.Contains(p.Log(), hidden) {
			t.Errorf("the log of %s holds a secret:\n%s", p.Name, p.Log())
		}
	}
}

// TestOtherPartitionsEndAProgram: a program with another number of partitions than those
// beside it ends with one line that has both, whatever it is.
func TestOtherPartitionsEndAProgram(t *testing.T) {
	t.Parallel()
	environ := map[string]string{
		"AMQP_URL": rabbittest.URL(t), "QUEUE_PREFIX": rabbittest.Prefix(t), "PARTITIONS": "2", "LOG_LEVEL": "error",
		"APP_SECRET": "x", "VERIFY_TOKEN": "x", "HTTP_ADDR": "127.0.0.1:0", "DATABASE_URL": "sqlite::memory:",
	}
	first := start(t, "webhook", environ).ready(t)
	environ["PARTITIONS"], environ["ADMIN_ADDR"] = "3", "127.0.0.1:0"
	for _, name := range []string{"webhook", "core", "dispatcher"} {
		environ["PAGES_FILE"] = filepath.Join(t.TempDir(), "pages.json")
		if err := os.WriteFile(environ["PAGES_FILE"], []byte(`{"1":"x"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		text, code := output(t, name, environ)
		const want = "broker: settings: PARTITIONS: 3 here, and 2 in the programs on the broker"
		if code != 2 || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, want) {
			t.Errorf("%s with three partitions beside two = %d %q, want 2 and one line that begins with %q", name, code, text, want)
		}
	}
	first.Stop(t, program.Patience)
}
