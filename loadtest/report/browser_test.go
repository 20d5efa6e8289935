package report

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds every wait. All takes seconds; the rest is for a machine
// that stands still for a while.
const patience = time.Minute

// chromium returns the browser's path. Without one the test fails: it never
// skips.
func chromium(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("this test needs Chromium: install it or name it in CHROMIUM")
	return ""
}

// view is how large and how bright the page is shown.
type view struct {
	width, height int64
	scale         float64
	dark          bool
}

// tab is a report in a browser of its own.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp keeps the browser in it

	mu     sync.Mutex
	opened bool     // the report itself was asked for
	faults []string // errors on the console, dialogs, requests for anything else
}

// open shows the report that lies in file, without a network.
func openTab(t *testing.T, file string, v view) *tab {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium(t)), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), // it is tiny in containers
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"),
		chromedp.WSURLReadTimeout(patience),
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx}
	path, fragment, _ := strings.Cut(file, "#")
	address := url.URL{Scheme: "file", Path: path, Fragment: fragment}
	if err := chromedp.Listen(ctx, func(event any) { b.watch(event, "file://"+path) }); err != nil { // starts the browser
		t.Fatalf("start Chromium: %v", err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("end Chromium: %v", err)
		}
	})
	b.run("open the report",
		command(log.Enable, cdp.Empty{}), command(network.Enable, network.EnableParams{}), command(runtime.Enable, cdp.Empty{}),
		scheme(v.dark), chromedp.EmulateViewport(v.width, v.height, chromedp.EmulateScale(v.scale)),
		chromedp.Navigate(address.String()))
	t.Cleanup(b.check)
	return b
}

// scheme makes the browser prefer the dark or the light.
func scheme(dark bool) chromedp.Action[chromedp.Void] {
	value := "light"
	if dark {
		value = "dark"
	}
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}},
	})
}

// command is one of the protocol whose answer does not matter.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// watch notes what a report must not do.
func (b *tab) watch(event any, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fault := func(format string, args ...any) { b.faults = append(b.faults, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		switch {
		case e.Request.URL == address:
			b.opened = true
		case e.Request.URL != "data:,":
			fault("request for %s", e.Request.URL)
		}
	case *cdppage.EventJavascriptDialogOpening:
		fault("dialog %q", e.Message)
	case *runtime.EventExceptionThrown:
		fault("exception %s", e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		fault("console %s", e.Type)
	case *log.EventEntryAdded:
		fault("log %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	}
}

// check fails the test for what watch has seen.
func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.opened {
		b.t.Error("the browser did not ask for the report: nothing was watched")
	}
	for _, f := range b.faults {
		b.t.Errorf("the page: %s", f)
	}
}

// run does something with the page.
func (b *tab) run(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// eval returns a JavaScript expression's value.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return v
}
