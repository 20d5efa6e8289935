package sender

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/message"
)

func TestParsePages(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("EAAB", 50) // a real token's length
	tests := []struct {
		name, in string
		want     map[string]entry
		wantErr  []string
	}{
		{"two pages", `{"1":"a","2":"b"}`, map[string]entry{"1": {token: "a"}, "2": {token: "b"}}, nil},
		{"none", " {} \n", map[string]entry{}, nil},
		{"escapes", `{"1":"\u0041\/"}`, map[string]entry{"1": {token: "A/"}}, nil},
		{"duplicate", `{"1":"SECRET","2":"b","1":"SECRET2"}`, nil, []string{"page 1: occurs twice"}},
		{"empty token", `{"1":""}`, nil, []string{"page 1: token is empty"}},
		{"number", `{"17":5}`, nil, []string{"page 17: token is not a string"}},
		{"null", `{"17":null}`, nil, []string{"page 17: token is not a string"}},
		{"limits", `{"1":{"token":"a","limits":{"text":80,"media":2.5}},"2":{"token":"b"},"3":"c"}`, map[string]entry{
			"1": {"a", message.Limits{Text: 80, Media: 2.5}}, "2": {token: "b"}, "3": {token: "c"},
		}, nil},
		{"no token", `{"17":{"limits":{"text":80}}}`, nil, []string{"page 17: token is not a string"}},
		{"limit of nearly nothing", `{"17":{"token":"SECRET","limits":{"text":0.5}}}`, nil, []string{"page 17: text must be 1 to"}},
		{"limit of another type", `{"17":{"token":"SECRET","limits":{"media":"5"}}}`, nil, []string{"page 17: limits.media must be a number, not a string"}},
		{"unknown limit", `{"17":{"token":"SECRET","limits":{"voice":5}}}`, nil, []string{"page 17: holds a field other than"}},
		{"list of tokens", `{"17":["SECRET"]}`, nil, []string{"page 17: token is not a string"}},
		{"line break", `{"17":"SECRET\n"}`, nil, []string{"page 17: token holds a space"}},
		{"letters", `{"17":"SECRETä"}`, nil, []string{"page 17: token holds a space"}},
		{"every fault", `{"1":"","2":"b","3":7}`, nil, []string{"page 1: token is empty", "page 3: token is not a string"}},
		{"wrong way round", `{"` + long + `":"1"}`, nil, []string{"entry 1: is not a page id"}},
		{"bad page", `{"1":"a","../2":"SECRET"}`, nil, []string{"entry 2: is not a page id"}},
		{"empty", "", nil, []string{"ends too early"}},
		{"cut off", `{"1":"SECRET`, nil, []string{"ends too early"}},
		{"cut off after an entry", `{"1":"SECRET"`, nil, []string{"ends too early"}},
		{"list", `["SECRET"]`, nil, []string{"must be a JSON object"}},
		{"not JSON", `{"1":SECRET}`, nil, []string{"byte "}},
		{"more behind", `{"1":"a"}{"2":"SECRET"}`, nil, []string{"something follows"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parsePages(strings.NewReader(tt.in))
			if len(tt.wantErr) == 0 {
				if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(entry{})); diff != "" || err != nil {
					t.Errorf("parsePages(%s): err %v (-want +got):\n%s", tt.in, err, diff)
				}
				return
			}
			if err == nil {
				t.Fatalf("parsePages(%s) = %v, want an error", tt.in, got)
			}
			for _, want := range tt.wantErr {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("parsePages(%s) error = %v, want it to contain %q", tt.in, err, want)
				}
			}
			if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "EAAB") {
				t.Errorf("parsePages error holds a token: %v", err)
			}
		})
	}
}

func FuzzParsePages(f *testing.F) {
	f.Add(`{"1":"a","2":"b"}`)
	f.Add(`{"1":"a","1":{"b":[]}}`)
	f.Add(`{"1":"\ud800"`)
	f.Fuzz(func(t *testing.T, in string) {
		tokens, err := parsePages(strings.NewReader(in))
		if err != nil {
			return
		}
		for page, e := range tokens {
			if !validPage(page) || e.token == "" || strings.ContainsAny(e.token, " \r\n") || e.limits.Text < 0 || e.limits.Media < 0 {
				t.Errorf("parsePages(%q) lets page %q pass with %+v", in, page, e)
			}
		}
	})
}

// pagesFile is a file that can be rewritten; every content has the same time, as one
// that was copied with it.
type pagesFile struct {
	t    *testing.T
	path string
}

func newPagesFile(t *testing.T, content string) *pagesFile {
	t.Helper()
	f := &pagesFile{t: t, path: filepath.Join(t.TempDir(), "pages.json")}
	f.write(content)
	return f
}

func (f *pagesFile) write(content string) {
	f.t.Helper()
	modified := time.Unix(1, 0)
	if err := os.WriteFile(f.path, []byte(content), 0o600); err != nil {
		f.t.Fatalf("write: %v", err)
	}
	if err := os.Chtimes(f.path, modified, modified); err != nil {
		f.t.Fatalf("chtimes: %v", err)
	}
}

func TestOpenPagesFile(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	if _, err := OpenPagesFile(filepath.Join(t.TempDir(), "none"), log); err == nil {
		t.Error("OpenPagesFile(missing) = nil error, want one")
	}
	if _, err := OpenPagesFile(t.TempDir(), log); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("OpenPagesFile(folder) = %v, want an error that says so", err)
	}
	f := newPagesFile(t, `{"1":"SECRET","1":"SECRET"}`)
	if _, err := OpenPagesFile(f.path, log); err == nil || !strings.Contains(err.Error(), "page 1: occurs twice") {
		t.Errorf("OpenPagesFile(duplicate) error = %v, want it to name page 1", err)
	}
	f.write("\ufeff" + `{"1":"SECRET"}`)
	p, err := OpenPagesFile(f.path, log)
	if err != nil {
		t.Fatalf("OpenPagesFile: %v", err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, p); strings.Contains(got, "SECRET") {
			t.Errorf("Sprintf(%s) shows a token: %s", format, got)
		}
	}
}

// syncBuffer is a buffer that Run's goroutine writes and a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestPagesFollowTheFile(t *testing.T) {
	t.Parallel()
	f := newPagesFile(t, `{"1":"a"}`)
	synctest.Test(t, func(t *testing.T) {
		var logged syncBuffer
		p, err := OpenPagesFile(f.path, slog.New(slog.NewTextHandler(&logged, nil)))
		if err != nil {
			t.Fatalf("OpenPagesFile: %v", err)
		}
		var told []string
		p.OnChange(func(pages []string) { told = append(told, strings.Join(pages, " ")) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()

		faults := 0
		step := func(name, content, page, want string, wantFaults int) {
			t.Helper()
			if content == "-" {
				if err := os.Remove(f.path); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			} else if content != "" {
				f.write(content)
			}
			time.Sleep(10 * time.Second) // five polls
			synctest.Wait()
			if got, _ := p.Token(page); got != want {
				t.Errorf("%s: Token(%s) = %q, want %q", name, page, got, want)
			}
			faults += wantFaults
			if got := strings.Count(logged.String(), "level=ERROR"); got != faults {
				t.Errorf("%s: %d faults logged in all, want %d:\n%s", name, got, faults, logged.String())
			}
		}
		step("unchanged", "", "1", "a", 0)
		step("changed", `{"1":"b"}`, "1", "b", 0) // same size, same time
		step("page added", `{"1":"b","2":"SECRET"}`, "2", "SECRET", 0)
		step("broken", `{"1":"SECRET`, "2", "SECRET", 1)
		step("broken otherwise", `{"1":""}`, "1", "b", 1)
		step("gone", "-", "1", "b", 1)
		step("back and whole", `{"1":"c"}`, "1", "c", 0)
		step("page removed", "", "2", "", 0)
		step("broken again", `{"1":""}`, "1", "c", 1)
		if strings.Contains(logged.String(), "SECRET") || strings.Count(logged.String(), "level=INFO") != 3 {
			t.Errorf("log holds a token or not 3 reloads:\n%s", logged.String())
		}
		if want := []string{"1", "2", "1 2"}; !slices.Equal(told, want) { // the last one is gone
			t.Errorf("told of the pages %q, want %q", told, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

func TestPagesSeeAChangeWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	f := newPagesFile(t, `{"1":"a"}`)
	synctest.Test(t, func(t *testing.T) {
		p, err := OpenPagesFile(f.path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("OpenPagesFile: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		f.write(`{"1":"b"}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got, _ := p.Token("1"); got != "b" {
			t.Errorf("Token after 2 s = %q, want b", got)
		}
		cancel()
		<-done
	})
}

func TestStaticTokens(t *testing.T) {
	t.Parallel()
	m := map[string]string{"1": "a"}
	p := StaticTokens(m)
	m["2"] = "b" // the caller's map is the caller's
	if got, ok := p.Token("1"); got != "a" || !ok {
		t.Errorf("Token(1) = %q, %v, want a, true", got, ok)
	}
	if got, ok := p.Token("2"); got != "" || ok {
		t.Errorf("Token(2) = %q, %v, want none", got, ok)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// A Kubernetes secret is mounted as a link to a link: the file leads through
// ..data to the folder of its version. A new version replaces ..data alone.
func TestPagesFollowASecretVolume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(name, content string, written time.Time) {
		t.Helper()
		file := filepath.Join(dir, name, "pages.json")
		link := filepath.Join(dir, "..data_new")
		for _, err := range []error{
			os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600), os.Chtimes(file, written, written),
			os.Symlink(name, link), os.Rename(link, filepath.Join(dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	now := time.Now()
	version("..1", `{"1":"old"}`, now)
	path := filepath.Join(dir, "pages.json")
	if err := os.Symlink("..data/pages.json", path); err != nil {
		t.Fatal(err)
	}
	p, err := OpenPagesFile(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	version("..2", `{"1":"new"}`, now.Add(time.Minute))
	p.poll()
	if token, _ := p.Token("1"); token != "new" {
		t.Errorf("token after the volume was renewed = %q, want the new one", token)
	}
}
