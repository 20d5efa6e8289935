package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"chatclub/tools/private"
	"chatclub/tools/program"
)

// binDir holds the programs, built once by TestMain.
var binDir string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	var err error
	if binDir, err = program.Build("chatclub/cmd/...", "chatclub/examples/go"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(binDir)
	return m.Run()
}

// process is a program of ours that runs.
type process struct {
	*program.Process
	admin string // address of the admin port
}

// start runs a program with the environment given and nothing else of ours,
// and waits until it is alive. Every process gets an admin port of its own.
func start(t *testing.T, name string, environ map[string]string) *process {
	t.Helper()
	p := &process{admin: freeAddr(t)}
	env := append(program.Environ(environ), "HOME="+t.TempDir(), "ADMIN_ADDR="+p.admin)
	if environ["LOG_LEVEL"] == "" {
		env = append(env, "LOG_LEVEL=info")
	}
	p.Process = program.Start(t, program.Command{Path: filepath.Join(binDir, name), Env: env})
	t.Cleanup(func() {
		if strings.Contains(p.Log(), "messages wait without a reason") {
			t.Errorf("%s found messages that waited for nothing:\n%s", name, p.Tail())
		}
	})
	program.Eventually(t, name+" is alive", func() error {
		if p.HasEnded() {
			t.Fatalf("%s ended at start: %v\n%s", name, p.Wait(), p.Tail())
		}
		return p.status("/healthz")
	})
	return p
}

// ready waits until the process says that it is ready.
func (p *process) ready(t *testing.T) *process {
	t.Helper()
	program.Eventually(t, p.Name+" is ready", func() error { return p.status("/readyz") })
	return p
}

// status is nil when the admin port answers path with 200.
func (p *process) status(path string) error {
	code, body, err := get("http://" + p.admin + path)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("%s answers %d: %s", path, code, strings.TrimSpace(body))
	}
	return nil
}

// notReady waits until none of the processes is ready. They are alive all the same.
func notReady(t *testing.T, ps ...*process) {
	t.Helper()
	for _, p := range ps {
		program.Eventually(t, p.Name+" is not ready", func() error {
			if p.status("/readyz") == nil {
				return fmt.Errorf("%s is ready", p.Name)
			}
			return nil
		})
		for _, path := range []string{"/healthz", "/metrics"} {
			program.Eventually(t, p.Name+" answers "+path+" while not ready", func() error { return p.status(path) })
		}
	}
}

// freeAddr returns an address on this machine that nothing listens on, and that no
// program is given that asks for any.
func freeAddr(t *testing.T) string {
	t.Helper()
	ports, err := private.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
}

func get(url string) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	return res.StatusCode, string(b), err
}
