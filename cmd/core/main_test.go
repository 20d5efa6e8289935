package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"chatclub/internal/rooms"
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

// environment has what the program needs. No broker listens at AMQP_URL.
func environment(database string) map[string]string {
	return map[string]string{
		"ADMIN_ADDR": "127.0.0.1:0", "DATABASE_URL": database, "PARTITIONS": "1", "ROOM_CAPACITY": "2",
		"AMQP_URL": "amqp://guest:" + password + "@127.0.0.1:1/",
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
