package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"chatclub/internal/app"
	"chatclub/internal/service"
)

// asProgram makes this test's binary behave as the program itself.
const asProgram = "CHATCLUB_TEST_AS_WEBHOOK"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	testSecret = "chatclub-test-secret"
	fixtures   = "../../internal/webhook/testdata"
)

// environment has what the program needs, with every port free.
func environment(more ...string) map[string]string {
	environ := map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0",
		"APP_SECRET": testSecret, "VERIFY_TOKEN": "verify-me", "PARTITIONS": "2",
		"AMQP_URL": "amqp://guest:streng-geheim@127.0.0.1:1/", // nothing listens there
	}
	for i := 0; i+1 < len(more); i += 2 {
		environ[more[i]] = more[i+1]
	}
	return environ
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

// request returns the status and body of an answer.
func request(t *testing.T, method, url string, body []byte, signature string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if signature != "" {
		req.Header.Set("X-Hub-Signature-256", signature)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res.StatusCode, string(b)
}

func readFixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixtures, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// command is the program as a process.
func command(t *testing.T, environ map[string]string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH")}
	for k, v := range environ {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

func TestProcessHelpAndFaults(t *testing.T) {
	t.Parallel()
	cmd, stdout, stderr := command(t, nil, "-h")
	if code := exitCode(t, cmd.Run()); code != 0 || stderr.Len() > 0 {
		t.Errorf("webhook -h = %d with %q on stderr, want 0 and nothing", code, stderr)
	}
	for _, s := range service.Table[app.WebhookSettings]() {
		if !strings.Contains(stdout.String(), s.Name) || !strings.Contains(stdout.String(), s.Meaning) {
			t.Errorf("webhook -h does not describe %s", s.Name)
		}
	}
	cmd, stdout, stderr = command(t, map[string]string{"MAX_IN_FLIGHT": "many", "HTTP_ADDR": "x", "VERIFY_TOKEN": "v"})
	want := `settings: APP_SECRET: must be set; MAX_IN_FLIGHT: "many" is not a whole number; AMQP_URL: must be set; HTTP_ADDR: "x" is not an address such as :8080 or 127.0.0.1:8080` + "\n"
	if code := exitCode(t, cmd.Run()); code != 2 || stderr.String() != want || stdout.Len() > 0 {
		t.Errorf("webhook = %d with %q, want 2 with %q", code, stderr, want)
	}
}

// TestProcessWithoutBroker: the process lives, says that it is not ready,
// answers 503, and ends with 0 on SIGTERM.
func TestProcessWithoutBroker(t *testing.T) {
	t.Parallel()
	cmd, _, _ := command(t, environment("PUBLISH_TIMEOUT", "50ms", "SHUTDOWN_TIMEOUT", "5s", "LOG_FORMAT", "json"))
	cmd.Stderr = nil
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	logged := &bytes.Buffer{}
	addrs := make(map[string]string)
	for _, msg := range []string{"webhook listens", "admin server listens"} {
		addr, err := awaitAddr(io.TeeReader(pipe, logged), msg)
		if err != nil {
			t.Fatalf("%v in\n%s", err, logged)
		}
		addrs[msg] = "http://" + addr
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		_, _ = io.Copy(logged, pipe)
	}()
	if code, _ := request(t, http.MethodGet, addrs["admin server listens"]+"/healthz", nil, ""); code != 200 {
		t.Errorf("GET /healthz = %d, want 200", code)
	}
	if code, body := request(t, http.MethodGet, addrs["admin server listens"]+"/readyz", nil, ""); code != 503 {
		t.Errorf("GET /readyz = %d %q, want 503", code, body)
	}
	if code, _ := request(t, http.MethodPost, addrs["webhook listens"]+"/webhook", readFixture(t, "text.json"), string(readFixture(t, "text.sig"))); code != 503 {
		t.Errorf("POST = %d, want 503", code)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-rest
	if code := exitCode(t, cmd.Wait()); code != 0 {
		t.Errorf("webhook after SIGTERM = %d, want 0; log:\n%s", code, logged)
	}
	for _, secret := range []string{"streng-geheim", testSecret, "verify-me"} {
		if strings.Contains(logged.String(), secret) {
			t.Errorf("the log holds %q:\n%s", secret, logged)
		}
	}
}

// awaitAddr reads JSON log lines byte by byte, so that none after it is lost,
// until one has the message, and returns its addr.
func awaitAddr(r io.Reader, msg string) (string, error) {
	pattern := regexp.MustCompile(`"msg":"` + msg + `",.*"addr":"([^"]+)"`)
	var line []byte
	one := make([]byte, 1)
	for {
		if _, err := r.Read(one); err != nil {
			return "", fmt.Errorf("await %q: %w", msg, err)
		}
		if line = append(line, one[0]); one[0] != '\n' {
			continue
		}
		if m := pattern.FindSubmatch(line); m != nil {
			return string(m[1]), nil
		}
		line = line[:0]
	}
}
