package browsertest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// foreign is the name of a site that leads to this machine.
const foreign = "evil.example"

// TestForeignSite: a page of another site that is open in the operator's browser
// changes and reads nothing, neither on chatclub's port nor on the platform's or the
// admin port, also when its name leads to them (DNS rebinding).
func TestForeignSite(t *testing.T) {
	t.Parallel()
	s := start(t, "USERS=2", "ROOMS=1", "PAGES=1", "WAVES=false", "EVENTS_PER_SECOND=2")
	eventually(t, "somebody wrote", func() bool { return s.ledger().Totals.Accepted > 3 })
	admin := strings.TrimSuffix(s.metrics, "/metrics")
	var pages struct {
		Pages []struct {
			Page   string `json:"page"`
			Paused bool   `json:"paused"`
		} `json:"pages"`
	}
	read := func() {
		t.Helper()
		if err := json.Unmarshal([]byte(s.get(admin+"/pages")), &pages); err != nil || len(pages.Pages) != 1 {
			t.Fatalf("GET /pages = %+v, %v, want one page", pages, err)
		}
	}
	read()
	settings := s.get(s.platform + "/control")
	broadcast := fmt.Sprintf(`{"page":%q,"text":"evil"}`, pages.Pages[0].Page)
	pause := "/pages/" + pages.Pages[0].Page + "/pause"

	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>evil</title><p>evil"))
	}))
	defer evil.Close()
	b := &tab{t: t, patience: patience}
	b.ctx = window(t, func(any) {})
	for _, place := range []string{evil.URL, s.page, s.platform, admin} { // on its own port, then on ours by rebinding
		u, err := url.Parse(place)
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(u.Host)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []struct{ base, path, body string }{
			{admin, pause, ""},
			{admin, "/broadcast", broadcast},
			{s.page, "/actions/flood", "{}"},
			{s.platform, "/ledger/reset", ""},
			{s.platform, "/control", `{"text":{"per_second":1}}`},
		} {
			address := to.base + to.path
			if place != evil.URL {
				address = to.path // of the same origin, as the browser sees it
			}
			site := "http://" + foreign + ":" + port + "/"
			b.run("open the site", chromedp.Navigate(site))
			// What Navigate waited for may have been the last of the form's document.
			eventually(t, "the site is there", func() bool {
				there, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`location.pathname === "/" && document.readyState === "complete"`))
				return err == nil && there
			})
			// A script may not read these answers, but they come. The document may still
			// be replaced meanwhile; then it posts again.
			eventually(t, "the posts to "+address+" are answered", func() bool {
				done, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`(async () => {
					await fetch(%[1]q, { method: "POST", mode: "no-cors", body: %[2]q });
					await fetch(%[1]q, { method: "POST", headers: { "Content-Type": "application/json" }, body: %[2]q }).catch(() => {});
					return window.done = true;
				})()`, address, to.body), chromedp.EvalAwaitPromise))
				return err == nil && done
			})
			b.run("submit a form to "+address, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
				const form = document.body.appendChild(document.createElement("form"));
				form.action = %q; form.method = "POST"; form.enctype = "text/plain";
				form.submit();
			})()`, address)))
			// The site itself may be a refusal, so wait for the form's own document.
			eventually(t, "the form is refused", func() bool {
				text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
					`window.done || document.readyState !== "complete" ? "" : document.body?.innerText ?? ""`))
				return err == nil && (strings.Contains(text, "refused") || strings.Contains(text, "application/json"))
			})
		}
		if place == evil.URL {
			continue
		}
		for _, path := range []string{"/state", "/pages", "/control", "/ledger"} {
			b.run("read "+path, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
				`fetch(%[1]q).then(r => { window.read = %[1]q + " " + r.status; })`, path)))
			b.until(path+" is answered", fmt.Sprintf(`window.read?.startsWith(%q)`, path+" "))
			if got := eval[string](b, `window.read`); got != path+" 403" {
				t.Errorf("GET under a foreign name = %s, want 403", got)
			}
		}
	}
	read()
	if pages.Pages[0].Paused {
		t.Error("the page was paused by another site")
	}
	if got := s.state().Receipts; len(got) > 0 {
		t.Errorf("receipts = %+v, want none: another site did nothing", got)
	}
	if got := s.get(admin + "/broadcasts"); !strings.Contains(got, `{"broadcasts":[]}`) {
		t.Errorf("broadcasts = %s, want none", got)
	}
	if got := s.get(s.platform + "/control"); got != settings {
		t.Errorf("settings = %s, want them unchanged: %s", got, settings)
	}
	if got := s.ledger().Totals.Accepted; got <= 3 {
		t.Errorf("accepted = %d, want a ledger that was not reset", got)
	}
}
