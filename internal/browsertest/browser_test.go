package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"chatclub/tools/program"
)

// patience bounds every wait for something on a page. It all takes seconds. The rest is
// for a machine that stands still for a while.
const patience = time.Minute

// browser is the Chromium of all tests, which each have a profile of their own in it;
// noBrowser is the reason why there is none.
var (
	browser   context.Context
	noBrowser error
)

// startBrowser starts the browser, and returns it with the function that ends it. A
// request to another host than this fails, and so is seen.
func startBrowser() (ctx context.Context, end func(), err error) {
	path, err := program.Browser()
	if err != nil {
		return nil, func() {}, err
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.UserDataDir(filepath.Join(binDir, "browser")),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), // it is tiny in containers
		// None of the windows may be slow because another one has the focus.
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.Flag("host-resolver-rules", "MAP "+foreign+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.WSURLReadTimeout(patience))
	ctx, cancel := chromedp.NewContext(allocator)
	return ctx, func() {
		cancel()
		stop()
	}, chromedp.Do(ctx) // which starts it
}

// view is the size of the page, and whether it is light or dark.
type view struct {
	width, height int64
	scale         float64
	dark          bool
	still         bool // the reader wants less motion
}

// tab is the page in a window of its own.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp keeps the browser in it

	patience time.Duration

	mu       sync.Mutex
	errors   []string // of the page: errors on its console, requests to elsewhere
	forgiven []string // texts of errors that the test has brought about
	requests int
}

// window opens a window with a profile of its own, which gives its events to watch.
func window(t *testing.T, watch func(event any)) context.Context {
	t.Helper()
	if noBrowser != nil {
		t.Fatal(noBrowser)
	}
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	if err := chromedp.Listen(ctx, watch); err != nil {
		t.Fatalf("open a window of Chromium: %v", err)
	}
	return ctx
}

// open shows the page at an address.
func open(t *testing.T, address string, v view) *tab {
	t.Helper()
	b := blank(t, v)
	b.show(address)
	return b
}

// blank is a tab that shows nothing yet.
func blank(t *testing.T, v view) *tab {
	t.Helper()
	b := &tab{t: t, patience: patience}
	b.ctx = window(t, b.watch)
	b.run("watch the page", call(log.Enable, cdp.Empty{}), call(network.Enable, network.EnableParams{}), call(runtime.Enable, cdp.Empty{}),
		call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})) // every window has the focus
	b.look(v)
	return b
}

// show shows the page at an address.
func (b *tab) show(address string) {
	b.t.Helper()
	b.run("open the page", chromedp.Navigate(address))
	b.until("the stream is open", `document.querySelector("#live.on") !== null`)
	b.t.Cleanup(b.check)
}

// look changes how the page is looked at.
func (b *tab) look(v view) {
	b.t.Helper()
	scheme, motion := "light", "no-preference"
	if v.dark {
		scheme = "dark"
	}
	if v.still {
		motion = "reduce"
	}
	b.run("look at the page",
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion}},
		}),
		chromedp.EmulateViewport(v.width, v.height, chromedp.EmulateScale(v.scale)))
}

// frame waits until the changes are drawn, for 10 s at most: on a busy machine Chromium once
// drew nothing for a minute.
func frame() chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](`new Promise(done => {
		requestAnimationFrame(() => requestAnimationFrame(done));
		setTimeout(done, 10000);
	})`, chromedp.EvalAwaitPromise)
}

// call is a command of the protocol whose answer does not matter.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// watch notes the page's errors.
func (b *tab) watch(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note := func(format string, args ...any) { b.errors = append(b.errors, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests++
		if u, err := url.Parse(e.Request.URL); err != nil || u.Hostname() != "127.0.0.1" {
			note("request to %s", e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		note("exception %s %s", e.ExceptionDetails.Text, description(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			note("console %s: %s", e.Type, description(e.Args[0]))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			note("log %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	}
}

func description(o *runtime.RemoteObject) string {
	switch {
	case o == nil:
		return ""
	case o.Description != "":
		return o.Description
	}
	return string(o.Value)
}

// check fails the test for the errors that watch has seen.
func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests == 0 {
		b.t.Error("requests seen = 0, want those for the page at least")
	}
	for _, e := range b.errors {
		if !slices.ContainsFunc(b.forgiven, func(text string) bool { return strings.Contains(e, text) }) {
			b.t.Errorf("the page: %s", e)
		}
	}
}

// forgive passes over the errors with a text, which the test has brought about: those
// that were there, and those that the browser has still to tell.
func (b *tab) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgiven = append(b.forgiven, text)
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

// until waits for a condition, a JavaScript expression.
func (b *tab) until(what, condition string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, b.patience+5*time.Second)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](condition, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(b.patience)))
	if err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText`)) // it explains, if it can
		b.t.Fatalf("wait until %s: %v\n%s", what, err, strings.TrimSpace(text))
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

// click clicks on the element that the selector finds.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.run("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// says types a text into a phone and sends it.
func (b *tab) says(phone, text string) {
	b.t.Helper()
	b.run("type in phone "+phone,
		chromedp.SendKeys(chromedp.CSS("#phone-"+phone+" .compose input"), text),
		chromedp.Click(chromedp.CSS("#phone-"+phone+" .compose [type=submit]")))
}

// joins taps "Get started" and waits for the welcome.
func (b *tab) joins(phone string) {
	b.t.Helper()
	b.click("#phone-" + phone + " .start")
	b.until("phone "+phone+" has its welcome",
		`(() => { const p = document.querySelector("#phone-`+phone+`"); return p.dataset.state === "joined" && p.querySelector(".talk li:last-child").className === "" })()`)
}

// got is the condition that a phone shows a text that it did not write.
func got(phone, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#phone-%s .talk li:not(.mine) .bubble")].some(b => b.textContent.includes(%q))`, phone, text)
}
