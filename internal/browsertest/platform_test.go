package browsertest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/web"
)

// TestPlatformPage: fakeapi's page has a verdict, keeps the limits as they were, shows
// the values under the pointer, and asks before it clears the ledger. Without data it
// is dim and says since when. It tells when the platform was restarted.
func TestPlatformPage(t *testing.T) {
	t.Parallel()
	platform := func() (*fakeapitest.Platform, *url.URL) {
		p := fakeapitest.New(t, fakeapi.Config{})
		if _, err := web.New(web.Config{API: p.API}); err != nil {
			t.Fatal(err)
		}
		base, _ := p.Listen()
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		return p, u
	}
	p, address := platform()
	var target atomic.Pointer[url.URL] // where the page's requests go; nil: nowhere
	target.Store(address)
	front := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		Rewrite: func(r *httputil.ProxyRequest) {
			if to := target.Load(); to != nil {
				r.SetURL(to)
			}
		},
	})
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)

	b := open(t, front.URL, laptop)
	verdict := func(want string) {
		t.Helper()
		b.until("the verdict is "+want, `document.querySelector("#verdict").innerText.replace(/\s+/g, " ").trim() === "`+want+`"`)
	}
	verdict("0 lost · 0 doubled of 0 messages")
	p.Ask("POST", "/ledger/expect", `{"page":"1","mid":"m_1","recipients":["42","43"]}`)
	verdict("2 awaited · 0 doubled of 2 messages")
	for _, to := range []string{"42", "43", "43"} {
		p.Ask("POST", "/1/messages", fakeapitest.Text(to, "1/m_1/"+to), fakeapitest.Bearer("1"))
	}
	verdict("0 lost · 1 doubled of 2 messages")

	b.until("the chart has the limit", `document.querySelector("#chart").dataset.limits?.endsWith(",300,300")`)
	if err := p.Patch([]byte(`{"text":{"per_second":7}}`)); err != nil {
		t.Fatal(err)
	}
	b.until("the limit is another, and was what it was", `/^300,.*,300,7(,7)*$/.test(document.querySelector("#chart").dataset.limits)`)
	b.run("point at the last second", chromedp.Evaluate[chromedp.Void](`(c => c.dispatchEvent(new PointerEvent("pointermove", { clientX: c.getBoundingClientRect().right - 6 })))(document.querySelector("#chart"))`))
	b.until("its values are shown", `/^\d\d:\d\d:\d\d\n\d accepted\n0 refused\nlimit 7$/.test(document.querySelector("#tip").textContent)`)

	const asked = `document.querySelector("#reset-question").open`
	b.click("#reset")
	b.until("the page asks", asked)
	b.click("#reset-no")
	b.until("the question is gone", "!"+asked)
	verdict("0 lost · 1 doubled of 2 messages")
	b.click("#reset")
	b.click("#reset-yes")
	verdict("0 lost · 0 doubled of 0 messages")

	target.Store(nil)
	front.CloseClientConnections()
	b.until("the page says since when there is no data", `/^No data since \d\d:\d\d:\d\d$/.test(document.querySelector("#lost-since").textContent)`)
	if got := eval[string](b, `document.querySelector("#live").textContent + " " + getComputedStyle(document.querySelector("main")).opacity`); got != "Connection lost 0.4" {
		t.Errorf("without data = %s, want it said, and the figures dim", got)
	}
	_, address = platform()
	target.Store(address)
	b.until("the page is live again, and tells of the restart", `!document.querySelector("#lost-since").checkVisibility() &&
		document.querySelector("#live").textContent === "Live" && /^The platform was restarted at/.test(document.querySelector("#notice").textContent)`)
	b.forgive("Failed to load resource") // while there was no platform
}
