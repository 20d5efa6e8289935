package e2e

import (
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/rooms/roomstest"
)

// programs are all of ours that run until they are stopped, with what each needs to
// start.
func programs(t *testing.T) map[string]map[string]string {
	t.Helper()
	return map[string]map[string]string{
		"webhook":    {"AMQP_URL": "amqp://127.0.0.1:1", "APP_SECRET": "x", "VERIFY_TOKEN": "x"},
		"core":       {"AMQP_URL": "amqp://127.0.0.1:1"},
		"dispatcher": {"AMQP_URL": "amqp://127.0.0.1:1", "PAGES_FILE": "none.json"},
		"fakeapi":    {},
		"chatclub":   {},
	}
}

// output runs a program that ends by itself.
func output(t *testing.T, name string, environ map[string]string, args ...string) (text string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, name), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir}
	for k, v := range environ {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, _ := cmd.CombinedOutput() // the exit code says what the error would
	return string(out), cmd.ProcessState.ExitCode()
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
	}
}

// The operator's tool lists its commands, and each command its settings.
func TestToolListsCommandsAndSettings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"-h", []string{"top", "trace ID", "dead list", "pages resume PAGE", "broadcast start PAGE"}},
		{"top -h", []string{"DISPATCHERS", "CORE", "WEBHOOK", "ADMIN_TOKEN", "AMQP_URL", "QUEUE_PREFIX", "-once", "-json"}},
		{"trace -h", []string{"DISPATCHERS", "CORE", "AMQP_URL", "-json"}},
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
	text, code := output(t, "chatclubctl", map[string]string{"CORE": "nowhere", "DISPATCHERS": "neither"}, "top")
	if code != 2 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "CORE") || !strings.Contains(text, "DISPATCHERS") {
		t.Errorf("chatclubctl top with wrong settings = %d %q, want 2 and one line that names CORE and DISPATCHERS", code, text)
	}
}

var errStillReady = errors.New("still ready")

// Readiness follows the broker and the database; health and metrics do not.
func TestReadinessFollowsBrokerAndDatabase(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Start(t)
	db, err := roomstest.NewProxy(roomstest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	p := plan{pages: 1, rooms: 1, users: 2, eventsPerSecond: 1, chat: time.Second, cores: 1, dispatchers: 1, amqpURL: broker.URL, databaseURL: db.URL()}
	d := deploy(t, p)
	all := []*process{d.webhook, d.cores[0], d.dispatchers[0]}
	for _, p := range all {
		p.ready(t)
	}
	notReady := func(p *process) {
		t.Helper()
		eventually(t, p.name+" is not ready", func() error {
			if p.status("/readyz") == nil {
				return errStillReady
			}
			return nil
		})
		for _, path := range []string{"/healthz", "/metrics"} {
			if err := p.status(path); err != nil {
				t.Errorf("%s while not ready: %v", p.name, err)
			}
		}
	}
	db.Cut()
	notReady(d.cores[0])
	if err := db.Mend(); err != nil {
		t.Fatal(err)
	}
	d.cores[0].ready(t)

	broker.Stop()
	for _, p := range all {
		notReady(p)
	}
	broker.Restart()
	for _, p := range all {
		p.ready(t)
	}
	d.settle(t)
}
