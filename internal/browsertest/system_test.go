package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"chatclub/tools/program"
)

// binDir holds chatclub, built once by TestMain.
var binDir string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	var err error
	if binDir, err = program.Build("chatclub/cmd/chatclub"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(binDir)
	var end func()
	browser, end, noBrowser = startBrowser() //nolint:fatcontext // once, for all tests
	defer end()
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
	p := program.Start(t, program.Command{
		Path: filepath.Join(binDir, "chatclub"), Args: args,
		Env: slices.Concat(program.Environ(nil), []string{"HOME=" + t.TempDir(), "HTTP_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0"}, environ),
	})
	s := &system{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: program.Patience}}
	s.end = sync.OnceValue(func() error {
		asked := false
		program.Eventually(t, "chatclub has ended", func() error {
			if !asked && strings.Contains(p.Log(), "\nstopping: ") { // copies that wait for a low limit are left on the queues
				asked = true
				time.Sleep(time.Second) // signals that come together count as one
				p.Ask()
			}
			if !p.HasEnded() {
				return errors.New("it runs")
			}
			return nil
		})
		return p.Wait()
	})
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		p.Ask()
		if err := s.end(); err != nil && !t.Failed() {
			t.Errorf("chatclub ended with %v, want a balance without loss\n%s", err, p.Log())
		}
	})
	s.page = p.Await(t, `open (http[^\s,]+)`)[1]
	ports := p.Await(t, `API are at (http[^\s,]+), the platform at (http[^\s,]+)`) // printed when every part is ready
	s.metrics, s.platform = ports[1]+"/metrics", ports[2]
	return s
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
	program.Eventually(t, what, func() error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	})
}
