package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/internal/app"
	"chatclub/internal/console"
	"chatclub/internal/deadletter"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/memory/memorytest"
	"chatclub/internal/sender"
	"chatclub/internal/service"
)

// watched is a deployment of a core and a dispatcher, and the page beside it.
type watched struct {
	t      *testing.T
	broker *memory.Broker
	api    *fakeapitest.Platform
	page   *httptest.Server
}

const (
	watchedPage = "1234567890"
	password    = "a-token-of-operators"
)

func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, broker: memorytest.New(t, queue.Topology{Prefix: "watched", Partitions: 4}), api: fakeapitest.New(t, fakeapi.Config{})}
	opt := app.Options{Broker: w.broker, Registry: service.NewRegistry(), Log: slog.New(slog.DiscardHandler)}
	admin := service.AdminSettings{Addr: "127.0.0.1:0", Tokens: service.Tokens{Admin: password}}

	cs := service.Defaults[app.CoreSettings]()
	cs.Admin, cs.DatabaseURL = admin, service.Secret("sqlite:"+t.TempDir()+"/core.db")
	opt.Name = "core"
	core, err := app.NewCore(t.Context(), app.CoreConfig{Settings: cs, Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	ds := service.Defaults[app.DispatcherSettings]()
	ds.Admin, ds.GraphURL = admin, "http://fakeapi/v23.0"
	opt.Name = "dispatcher"
	dispatcher, err := app.NewDispatcher(t.Context(), app.DispatcherConfig{
		Settings: ds, Options: opt, Transport: w.api.Transport(),
		Tokens: sender.StaticTokens(map[string]string{watchedPage: "token-" + watchedPage}),
	})
	if err != nil {
		t.Fatal(err)
	}
	one := func(name, addr string) func(context.Context) []console.Replica {
		return func(context.Context) []console.Replica {
			return []console.Replica{{Name: name, URL: "http://" + addr}}
		}
	}
	page, err := console.New(console.Config{
		Replicas: one("dispatcher", dispatcher.AdminAddr()), Core: one("core", core.AdminAddr()), Token: password,
		Broker: w.broker, Dead: &deadletter.Queue{Broker: w.broker, Now: time.Now},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	for _, run := range []func(context.Context) error{core.Run, dispatcher.Run, page.Run} {
		go func() { ended <- run(ctx) }()
	}
	w.page = httptest.NewServer(service.NewGuard(page.Handler(), service.GuardConfig{}))
	t.Cleanup(func() {
		w.page.CloseClientConnections()
		w.page.Close()
		stop()
		for range 3 {
			if err := <-ended; err != nil {
				t.Errorf("a program ended with %v, want nil", err)
			}
		}
	})
	return w
}

// send has the dispatcher send a text.
func (w *watched) send(n int, to string) (id string) {
	w.t.Helper()
	o := message.Outbound{
		ID: fmt.Sprintf("%s/m%d/%s", watchedPage, n, to), Page: watchedPage, To: to, Class: message.ClassText,
		Text: "the text of a user", Time: time.Now().UnixMilli(),
	}
	body, err := o.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.broker.Publish(w.t.Context(), queue.Message{Queue: w.broker.Topology().OutboundOf(watchedPage), ID: o.ID, Body: body}); err != nil {
		w.t.Fatal(err)
	}
	return o.ID
}

// dead returns the number of dead letters.
func (w *watched) dead() int {
	w.t.Helper()
	info, err := w.broker.Inspect(w.t.Context(), w.broker.Topology().Dead())
	if err != nil {
		w.t.Fatal(err)
	}
	return info.Ready
}

// writes has a user write, so that core knows the page.
func (w *watched) writes() {
	w.t.Helper()
	body, err := message.Event{Kind: message.KindMessage, Page: watchedPage, ID: "m_1", User: "7", Time: time.Now().UnixMilli(), Text: "hi"}.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.broker.Publish(w.t.Context(), queue.Message{Queue: w.broker.Topology().InboundOf(watchedPage), ID: watchedPage + "/m_1", Body: body}); err != nil {
		w.t.Fatal(err)
	}
}

// TestWatch: beside a deployment an operator logs in, reads why a message is dead,
// sends it again, which is delivered, purges another, and pauses and resumes a page.
// A wrong password and another site are refused.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := watch(t)
	if err := w.api.Patch([]byte(`{"inject":[{"code":"100/2018074","recipient":"42","count":1}]}`)); err != nil {
		t.Fatal(err)
	}
	w.writes()
	bad, gone := w.send(1, "42"), w.send(2, "error-551")
	eventually(t, "two messages are dead", func() bool { return w.dead() == 2 })

	b := blank(t, laptop)
	t.Cleanup(b.check)
	b.run("open the page", chromedp.Navigate(w.page.URL))
	b.logIn()
	b.until("dead letters are counted", `document.querySelector("#dead-count").textContent === "2"`)
	b.click("#dead-open")
	row := func(id string) string {
		return fmt.Sprintf(`document.querySelector('#dead-letters tr[data-id=%q]')`, id)
	}
	b.until("the error is read", row(bad)+`?.querySelector(".error").textContent.endsWith("(#100) Invalid attachment.")`)
	if got := eval[string](b, row(bad)+`.innerText`); eval[bool](b, `document.body.innerText.includes("of a user")`) {
		t.Errorf("row = %q, want no text of a user before it is asked for", got)
	}
	b.run("show the payload", chromedp.Evaluate[chromedp.Void](row(bad)+`.querySelector("button").click()`))
	b.until("it is the message", row(bad)+`.nextElementSibling?.querySelector("pre")?.textContent.includes("of a user")`)
	for _, width := range []int64{320, 768, 1440} {
		b.look(view{width: width, height: 900, scale: 1})
		if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > width {
			t.Errorf("width of the page on a screen of %d = %d, want no more", width, wide)
		}
	}

	accepted := w.api.Ledger().Totals().Accepted
	b.run("choose it", chromedp.Evaluate[chromedp.Void](row(bad)+`.querySelector("input").click()`))
	b.until("the button is for one", `document.querySelector("#dead-replay").textContent === "Replay 1 letter"`)
	b.click("#dead-replay")
	b.until("it is gone from the list", row(bad)+` === null && `+row(gone)+` !== null`)
	eventually(t, "it is delivered", func() bool { return w.api.Ledger().Totals().Accepted == accepted+1 })

	w.fromAnotherSite(b, gone)
	b.click("#dead-purge")
	b.click("#dead-no")
	if w.dead() != 1 {
		t.Errorf("dead letters after the question was answered with no = %d, want 1", w.dead())
	}
	b.click("#dead-purge")
	b.until("the page asks", `document.querySelector("#dead-question").checkVisibility() && document.querySelector("#dead-question").textContent.startsWith("Purge 1 letter?")`)
	b.click("#dead-yes")
	b.until("there is none", `document.querySelector("#dead-sum").textContent === "No dead letters"`)
	if w.dead() != 0 {
		t.Errorf("dead letters after the purge = %d, want 0", w.dead())
	}

	b.until("RabbitMQ and core say how they are", `document.querySelector("#programs").innerText.replace(/\s+/g, " ") === "RabbitMQ ready inbound 0 · outbound 0 · lanes 0 · retry 0 · dead 0 core core ready"`)

	const button = `.row[data-page="` + watchedPage + `"] [data-action=`
	const state = `document.querySelector('.row[data-page="` + watchedPage + `"] .state').textContent`
	b.click(button + "pause]")
	b.until("the page is paused", state+` === "paused" && document.querySelector("#sentence").textContent.startsWith("Nothing is sent for …67890: it is paused (on the page).")`)
	b.click(button + "resume]")
	b.until("the page is not paused", state+` !== "paused" && document.querySelector('`+button+`pause]').checkVisibility()`)

	b.click("#logout")
	b.arrives("the login is asked for", `document.querySelector("#login") !== null`)
}

// TestPurgeWhatWasLookedAt: the buttons are for the letters that were found, also after
// another reason was chosen and not looked for.
func TestPurgeWhatWasLookedAt(t *testing.T) {
	t.Parallel()
	w := watch(t)
	if err := w.api.Patch([]byte(`{"inject":[{"code":"100/2018074","recipient":"42","count":1}]}`)); err != nil {
		t.Fatal(err)
	}
	w.send(1, "42")
	w.send(2, "error-551")
	eventually(t, "two messages are dead", func() bool { return w.dead() == 2 })

	b := blank(t, laptop)
	t.Cleanup(b.check)
	b.run("open the page", chromedp.Navigate(w.page.URL))
	b.logIn()
	b.click("#dead-open")
	b.until("both are there", `document.querySelectorAll("#dead-letters tr").length === 2`)
	choose := func(reason string) {
		b.run("choose a reason", chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector("#dead-reason").value = %q`, reason)))
	}
	choose("gone")
	b.click("#dead-filter button")
	b.until("the button is for one", `document.querySelector("#dead-purge").textContent === "Purge all 1"`)
	choose("")
	b.click("#dead-purge")
	b.click("#dead-yes")
	b.until("it was purged", `!document.querySelector("#dead-sum").textContent.includes("gone")`)
	if w.dead() != 1 {
		t.Errorf("dead letters after one was purged = %d, want 1", w.dead())
	}
}

// logIn tries a wrong password, and then the right one.
func (b *tab) logIn() {
	b.t.Helper()
	enter := func(text string) {
		b.t.Helper()
		b.run("type a password", chromedp.SendKeys(chromedp.CSS("#password"), text), chromedp.Click(chromedp.CSS("#login button")))
	}
	b.until("the login is asked for", `document.querySelector("#login") !== null`)
	enter("sesame")
	b.until("the password is refused", `document.querySelector("#why").checkVisibility() &&
		document.querySelector("#why").textContent === "This is not the password: it is the value of ADMIN_TOKEN."`)
	b.forgive("status of 401") // the refusal
	enter(password)
	b.arrives("the page is there", `document.querySelector("#live.on") !== null`)
	if seen := eval[string](b, `document.cookie`); seen != "" {
		b.t.Errorf("cookies that a script sees = %q, want none", seen)
	}
}

// arrives waits for a condition on the next document: until it is there, what is asked
// of the old one may fail. The condition may be a promise.
func (b *tab) arrives(what, condition string) {
	b.t.Helper()
	eventually(b.t, what, func() bool {
		there, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](condition, chromedp.EvalAwaitPromise))
		return err == nil && there
	})
}

// fromAnotherSite: a page of another origin that is open beside it in the operator's
// browser neither purges the letter nor pauses the page. Its port alone is another, so
// that the browser sends the session's cookie along.
func (w *watched) fromAnotherSite(b *tab, id string) {
	w.t.Helper()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>evil</title><p>evil"))
	}))
	defer evil.Close()
	for path, body := range map[string]string{"/dead/purge": `{"before":"2026-01-01T00:00:00Z"}`, "/actions/pause": `{"page":"` + watchedPage + `"}`} {
		b.run("open the other site", chromedp.Navigate(evil.URL))
		// What Navigate waited for may have been the last of the form's document.
		b.arrives("the other site is there", fmt.Sprintf(`location.origin === %q && document.readyState === "complete"`, evil.URL))
		// The document may still be replaced meanwhile; then it posts again.
		b.arrives("the posts are answered", fmt.Sprintf(`(async () => {
			await fetch(%[1]q, { method: "POST", mode: "no-cors", credentials: "include", body: %[2]q });
			await fetch(%[1]q, { method: "POST", credentials: "include", headers: { "Content-Type": "application/json" }, body: %[2]q }).catch(() => {});
			return true;
		})()`, w.page.URL+path, body))
		b.run("submit a form", chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
			const form = document.body.appendChild(document.createElement("form"));
			form.action = %[1]q; form.method = "POST"; form.enctype = "text/plain";
			const field = form.appendChild(document.createElement("input"));
			field.name = %[2]q.slice(0, -1) + ',"reason":"'; field.value = '"}';
			form.submit();
		})()`, w.page.URL+path, body)))
		b.arrives("the form is refused", `document.readyState === "complete" && document.body?.innerText.includes("requests from another site are refused")`)
	}
	b.forgive("status of 403")
	b.forgive("net::ERR_FAILED") // CORS blocks it
	b.forgive("has been blocked by CORS policy")
	if w.dead() != 1 {
		w.t.Errorf("dead letters after the other site = %d, want still 1", w.dead())
	}
	b.run("go back to the page", chromedp.Navigate(w.page.URL))
	b.arrives("the session goes on", `document.querySelector("#live.on") !== null`)
	b.click("#dead-open")
	b.until("the letter is there", fmt.Sprintf(`document.querySelector('#dead-letters tr[data-id=%q]') !== null`, id))
}
