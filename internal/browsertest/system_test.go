package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is chatclub, built once by TestMain.
var program string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chatclub-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the program:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "chatclub")
	build := exec.Command("go", "build", "-o", program, "chatclub/cmd/chatclub")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build chatclub: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// system is a running chatclub.
type system struct {
	t                       *testing.T
	page, platform, metrics string // addresses
	client                  *http.Client
	end                     func() error // waits for it
}

// start runs the whole system on free ports until the test ends, or it ends by itself.
func start(t *testing.T, environ ...string) *system { return startWith(t, nil, environ...) }

// startWith is start with arguments.
func startWith(t *testing.T, args []string, environ ...string) *system {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "HTTP_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0"}, environ...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start chatclub: %v", err)
	}
	s := &system{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience}}
	found := make(chan error, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		s.read(stdout, found, func() { // what waits for a low limit is left on the queues
			time.Sleep(time.Second) // signals that come together count as one
			_ = cmd.Process.Signal(syscall.SIGTERM)
		})
	})
	s.end = sync.OnceValue(func() error {
		reading.Wait()
		return cmd.Wait()
	})
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := s.end(); err != nil && !t.Failed() {
			t.Errorf("chatclub ended with %v, want a balance without loss\n%s", err, stderr.String())
		}
	})
	select {
	case err := <-found:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("chatclub printed no addresses")
	}
	return s
}

// read takes the addresses from the first lines and then keeps the pipe empty. The
// platform's is printed when every part is ready. It calls stopping when chatclub says
// that it waits.
func (s *system) read(stdout io.Reader, found chan<- error, stopping func()) {
	address := regexp.MustCompile(`http://[^\s,]+`)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		switch a := address.FindAllString(lines.Text(), -1); {
		case strings.HasPrefix(lines.Text(), "stopping: "):
			stopping()
		case len(a) == 1 && s.page == "":
			s.page = a[0]
		case len(a) == 2 && s.platform == "":
			s.metrics, s.platform = a[0]+"/metrics", a[1]
			found <- nil
		}
	}
	if s.platform == "" {
		found <- errors.New("chatclub printed too few addresses before it ended")
	}
}

// get returns a body.
func (s *system) get(address string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s = %d %v, want 200", address, resp.StatusCode, err)
	}
	return string(b)
}

// send calls the Send API for a page.
func (s *system) send(ctx context.Context, page, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.platform+"/v23.0/"+page+"/messages", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer token-"+page)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return err
}

// broadcastID is the id of a message that nobody announced: the ledger expects it
// when it is accepted.
func broadcastID(page, name, recipient string) string {
	return page + "/broadcast-" + name + "/" + recipient
}

// counts is the part of GET /ledger that the tests read.
type counts struct {
	Totals struct {
		Events, Expected, Accepted, Rejected, Duplicated, Unexpected int64
	}
	Answers map[string]int64
}

func (s *system) ledger() (c counts) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.get(s.platform+"/ledger?pages=0")), &c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// eventually waits for a condition outside the browser.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v until %s", patience, what)
		}
	}
}
