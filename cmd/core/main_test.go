package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/rooms"
	"chatclub/internal/rooms/roomstest"
	"chatclub/internal/service"
)

// asProgram makes this test's binary behave as the program itself.
const asProgram = "CHATCLUB_TEST_AS_CORE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

const password = "streng-geheim"

// environment is what the program needs, on a broker that nobody runs.
func environment(database string) map[string]string {
	return map[string]string{
		"ADMIN_ADDR": "127.0.0.1:0", "DATABASE_URL": database, "LANES": "1", "ROOM_CAPACITY": "2",
		"AMQP_URL": "amqp://guest:" + password + "@127.0.0.1:1/",
	}
}

// running is the program in this process, on a broker in memory.
type running struct {
	broker *memory.Broker
	admin  string
	stop   func() error
}

func runInProcess(t *testing.T, database string) running {
	t.Helper()
	s, err := service.Load[service.CoreSettings](nil, environment(database), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	broker, err := memory.New(queue.Topology{Prefix: s.Broker.Prefix, Lanes: s.Broker.Lanes})
	if err != nil {
		t.Fatal(err)
	}
	bound, ended := make(chan string, 1), make(chan error, 1)
	p := program{
		settings: s, broker: broker, registry: service.NewRegistry(), log: service.NewLogger(s.Log, io.Discard),
		bound: func(adminAddr string) { bound <- adminAddr },
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- p.run(ctx) }()
	r := running{broker: broker, stop: func() error { cancel(); return <-ended }}
	select {
	case addr := <-bound:
		r.admin = "http://" + addr
	case err := <-ended:
		cancel()
		t.Fatalf("run = %v before it listened", err)
	}
	return r
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return res.StatusCode, string(body)
}

func TestRelay(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { t.Helper(); return "sqlite:" + t.TempDir() + "/core.db" },
		"postgres": roomstest.DSN,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runInProcess(t, database(t))
			out, err := r.broker.Consume(r.broker.Topology().Outbound(), queue.ConsumeOptions{Prefetch: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, user := range []string{"1", "2", "3"} { // the third opens the next room
				ev := message.Event{Kind: message.KindMessage, Page: "p", ID: "m" + user, User: user, Time: 1, Text: "hello"}
				body, err := ev.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if err := r.broker.Publish(t.Context(), queue.Message{Queue: r.broker.Topology().Inbound(), ID: ev.ID, Body: body}); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range []string{"p/m1/1", "p/m2/2", "p/m2/1", "p/m3/3"} {
				select {
				case d := <-out.Deliveries():
					if d.ID != want {
						t.Errorf("copy = %s, want %s", d.ID, want)
					}
				case <-time.After(30 * time.Second):
					t.Fatalf("no copy %s after 30 s", want)
				}
			}
			if code, body := get(t, r.admin+"/readyz"); code != http.StatusOK {
				t.Errorf("GET /readyz = %d %q, want 200", code, body)
			}
			if _, body := get(t, r.admin+"/metrics"); !strings.Contains(body, "chatclub_core_joins_total 3\n") {
				t.Error("GET /metrics does not say that 3 users joined")
			}
			if err := r.stop(); err != nil {
				t.Errorf("run = %v, want nil", err)
			}
		})
	}
}

// TestDatabaseAway: the program starts, waits, and says so.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	r := runInProcess(t, "postgres://u:"+password+"@127.0.0.1:1/d?sslmode=disable")
	code, body := get(t, r.admin+"/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "database") || strings.Contains(body, password) {
		t.Errorf("GET /readyz without a database = %d %q, want 503 that names it without the password", code, body)
	}
	if code, _ := get(t, r.admin+"/healthz"); code != http.StatusOK {
		t.Errorf("GET /healthz without a database = %d, want 200", code)
	}
	if err := r.stop(); err != nil {
		t.Errorf("run = %v, want nil", err)
	}
}

// TestNewerDatabase: a program that is older than its database ends with one
// sentence that says what to do.
func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + t.TempDir() + "/core.db"
	store, err := rooms.Open(rooms.Config{DatabaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Migrate(t.Context()), store.Close()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `INSERT INTO schema_migrations VALUES (1000, 0)`); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, environment(url))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != service.ExitFailure {
		t.Errorf("core with a newer database = %v, want exit %d", err, service.ExitFailure)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	const start, end = "core: migrate: the database has schema version 1000, this program knows only ", ": run the newer version again, or restore a backup from before it"
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, start) || !strings.HasSuffix(last, end) {
		t.Errorf("core with a newer database ended with %q, want %s…%s", last, start, end)
	}
}

func TestBadDatabaseURL(t *testing.T) {
	t.Parallel()
	env := environment("postgres://u:" + password + "@h:port/d")
	err := start(t.Context(), nil, env, io.Discard, io.Discard)
	var settings *service.SettingsError
	if !errors.As(err, &settings) || !strings.Contains(err.Error(), "DATABASE_URL") || strings.Contains(err.Error(), password) {
		t.Errorf("start with a bad DATABASE_URL = %v, want a settings error that names it without the password", err)
	}
}

// command starts this test's binary as the program.
func command(t *testing.T, env map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = []string{asProgram + "=1", "HOME=" + os.Getenv("HOME")}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

func TestHelp(t *testing.T) {
	t.Parallel()
	out, err := command(t, nil, "-h").Output()
	if err != nil {
		t.Fatalf("core -h = %v, want exit 0", err)
	}
	for _, want := range []string{"DATABASE_URL", "ROOM_CAPACITY", "AMQP_URL", "ADMIN_ADDR", "LOG_LEVEL"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("core -h does not list %s", want)
		}
	}
}

func TestWrongSettings(t *testing.T) {
	t.Parallel()
	cmd := command(t, map[string]string{
		"DATABASE_URL": "mysql://u:" + password + "@h/d", "ROOM_CAPACITY": "101", "PREFETCH": "x", "WORKERS": "0",
	})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != service.ExitSettings {
		t.Errorf("core with wrong settings = %v, want exit %d", err, service.ExitSettings)
	}
	if n := strings.Count(stderr.String(), "\n"); n != 1 {
		t.Errorf("core with wrong settings wrote %d lines, want 1: %s", n, stderr.String())
	}
	for _, want := range []string{"DATABASE_URL", "ROOM_CAPACITY", "PREFETCH", "WORKERS", "AMQP_URL"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("core with wrong settings does not name %s: %s", want, stderr.String())
		}
	}
	if strings.Contains(stderr.String(), password) {
		t.Errorf("core with wrong settings prints the password: %s", stderr.String())
	}
}

// TestSIGTERM stops the program while it waits for its broker.
func TestSIGTERM(t *testing.T) {
	t.Parallel()
	cmd := command(t, environment("sqlite:"+t.TempDir()+"/core.db"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	lines := bufio.NewScanner(io.TeeReader(stderr, &log))
	started := false
	for lines.Scan() {
		if strings.Contains(lines.Text(), "core started") && !started {
			started = true
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !started {
		t.Errorf("core after SIGTERM = %v, started %v, want exit 0 after its start; it wrote %s", err, started, log.String())
	}
	if strings.Contains(log.String(), password) {
		t.Errorf("core logs the password: %s", log.String())
	}
}
