package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chatclub/internal/tools/private"
)

// binDir holds the programs, built once by TestMain.
var binDir string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chatclub-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the programs:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "chatclub/cmd/...")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	binDir = dir
	return m.Run()
}

// patience bounds every wait for something that must happen. All takes seconds;
// the rest is for a machine that stands still for a while.
const patience = 2 * time.Minute

// process is a program of ours that runs.
type process struct {
	name  string
	cmd   *exec.Cmd
	admin string // address of the admin port
	ended chan struct{}
	err   error // of Wait; read after ended

	mu     sync.Mutex
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// start runs a program with the environment given and nothing else of ours,
// and waits until it is alive. Every process gets an admin port of its own.
func start(t *testing.T, name string, environ map[string]string, args ...string) *process {
	t.Helper()
	p := &process{name: name, admin: freeAddr(t), ended: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(binDir, name), args...)
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ADMIN_ADDR=" + p.admin, "LOG_LEVEL=info"}
	for k, v := range environ {
		p.cmd.Env = append(p.cmd.Env, k+"="+v)
	}
	p.cmd.Stdout = &locked{mu: &p.mu, w: &p.stdout}
	p.cmd.Stderr = &locked{mu: &p.mu, w: &p.stderr}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("last lines of %s (pid %d):\n%s", name, p.cmd.Process.Pid, p.tail(25))
		}
	})
	eventually(t, name+" is alive", func() error {
		select {
		case <-p.ended:
			t.Fatalf("%s ended at start: %v\n%s", name, p.err, p.tail(25))
		default:
		}
		return p.status("/healthz")
	})
	return p
}

// ready waits until the process says that it is ready.
func (p *process) ready(t *testing.T) *process {
	t.Helper()
	eventually(t, p.name+" is ready", func() error { return p.status("/readyz") })
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

// kill ends the process as kill -9 does, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// stop asks the process to end and checks that it does so cleanly within limit.
func (p *process) stop(t *testing.T, limit time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("signal %s: %v", p.name, err)
	}
	select {
	case <-p.ended:
		if p.err != nil {
			t.Errorf("%s after SIGTERM: %v, want exit code 0", p.name, p.err)
		}
	case <-time.After(limit):
		t.Errorf("%s still runs %v after SIGTERM", p.name, limit)
		p.kill()
	}
}

// tail is the last n lines of stderr and stdout.
func (p *process) tail(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for _, r := range []io.Reader{bytes.NewReader(p.stderr.Bytes()), bytes.NewReader(p.stdout.Bytes())} {
		for s := bufio.NewScanner(r); s.Scan(); {
			lines = append(lines, s.Text())
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// locked is a writer that other goroutines may read beside.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// freeAddr is an address on this machine that nothing listens on, and that nobody is
// given who asks for any.
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

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	const pause = 50 * time.Millisecond
	var err error
	var late time.Duration // by which this test itself was run too late, at worst
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err = check(); err == nil {
			return
		}
		slept := time.Now()
		time.Sleep(pause)
		late = max(late, time.Since(slept)-pause)
	}
	t.Fatalf("not within %v: %s: %v (%s)", patience, what, err, starved(late))
}

// starved says whether a machine that lets a sleeping test wait so long has no
// time for the programs either.
func starved(late time.Duration) string {
	if late < time.Second {
		return fmt.Sprintf("the machine is not starved: the test itself never waited more than %v for a processor", late.Round(time.Millisecond))
	}
	return fmt.Sprintf("STARVED MACHINE: the test itself waited %v for a processor; this says nothing about the programs", late.Round(time.Millisecond))
}
