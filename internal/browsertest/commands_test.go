package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// tap clicks, with the mouse, the last button or quick reply of that title that
// can be seen on a phone.
func (b *tab) tap(phone, title string) {
	b.t.Helper()
	b.until(fmt.Sprintf("phone %s has a button %q", phone, title), `(() => {
		document.querySelector("#target")?.removeAttribute("id");
		const all = [...document.querySelectorAll("#phone-`+phone+` .taps button:enabled")];
		const one = all.findLast(e => e.checkVisibility() && e.textContent === `+fmt.Sprintf("%q", title)+`);
		if (!one) return false;
		one.id = "target";
		return true;
	})()`)
	b.click("#target")
}

// reads waits until the last message on a phone, which it did not write,
// begins with a text.
func (b *tab) reads(phone, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("phone %s reads %q", phone, text), fmt.Sprintf(
		`(e => !e.matches(".mine") && e.querySelector(".bubble").textContent.startsWith(%q))(document.querySelector("#phone-%s .talk li:last-child"))`, text, phone))
}

// name returns the name that the others see before a phone's messages.
func (b *tab) name(phone, reader, text string) string {
	b.t.Helper()
	b.says(phone, text)
	b.until("the text is on phone "+reader, got(reader, text))
	name := eval[string](b, fmt.Sprintf(`[...document.querySelectorAll("#phone-%s .bubble")].findLast(e => e.textContent.endsWith(%q)).querySelector("b").textContent`, reader, text))
	return strings.TrimSuffix(name, ": ") // which is for screen readers
}

// TestCommandsByMouse: three phones join, chat, block and leave. Everything but
// the texts themselves is done by tapping the buttons that chatclub offers.
func TestCommandsByMouse(t *testing.T) {
	t.Parallel()
	s := start(t, "USERS=4", "ROOMS=2", "PAGES=1", "WAVES=false", "EVENTS_PER_SECOND=0.01")
	b := open(t, s.platform, desktop)
	for _, phone := range []string{"1", "2", "3"} {
		b.joins(phone)
		b.reads(phone, "Welcome to room 3, Guest ")
	}
	two := b.name("2", "1", "good morning")
	b.until("the text is on phone 3", got("3", "good morning"))

	// List the members, and block one of them.
	b.tap("1", "Who is here?")
	b.reads("1", "3 people in room 3:")
	b.tap("1", "Block "+two)
	b.reads("1", two+" is blocked.")
	said := eval[[]string](b, `[...document.querySelectorAll("#phone-1 .talk li.mine .bubble")].slice(-2).map(e => e.textContent)`)
	if want := "Who is here?, Block " + two; strings.Join(said, ", ") != want {
		t.Errorf("the taps of phone 1 are shown as %q, want %s", said, want)
	}
	b.says("2", "can you hear me?")
	b.until("the text is on phone 3", got("3", "can you hear me?"))
	b.says("1", "somebody is quiet")
	b.until("the text is on phone 3", got("3", "somebody is quiet"))
	b.unseen("3", map[string]string{"1": "can you hear me?", "2": "somebody is quiet"})

	if !eval[bool](b, `(t => t.scrollHeight - t.scrollTop - t.clientHeight < 2)(document.querySelector("#phone-1 .talk"))`) {
		t.Error("phone 1 does not show its last message, want it to after a tap further up")
	}

	// The button below the answer undoes it.
	b.tap("1", "Unblock "+two)
	b.reads("1", two+" is not blocked any more.")
	b.says("2", "and now?")
	b.until("the text is on phone 1", got("1", "and now?"))

	// Leave by the button of the welcome, which is still there, and come back.
	b.tap("1", "Leave")
	b.reads("1", "You have left room 3.")
	b.says("3", "one has gone")
	b.until("the text is on phone 2", got("2", "one has gone"))
	b.unseen("", map[string]string{"1": "one has gone"})
	b.tap("1", "Join a room")
	b.reads("1", "Welcome to room 3, ")
	b.says("3", "welcome back")
	b.until("the text is on phone 1", got("1", "welcome back"))

	// The rooms there are, and a word that is no command.
	b.tap("2", "Rooms")
	b.reads("2", "Where would you like to go?")
	b.tap("2", "3")
	b.reads("2", "You are in room 3 already.")
	b.says("3", "/dance")
	b.reads("3", "There is no command /dance.")
	if n := eval[int](b, `[...document.querySelectorAll(".talk li:not(.mine)")].filter(e => e.textContent.includes(": /dance")).length`); n != 0 {
		t.Errorf("copies of a command = %d, want 0", n)
	}
	if l := s.ledger().Totals; l.Unexpected != 0 || l.Duplicated != 0 {
		t.Errorf("ledger = %+v, want nothing unexpected or duplicated by the phones", l)
	}
}

// TestQuickReplies: quick replies stand below the last message alone, and a tap
// sends their title.
func TestQuickReplies(t *testing.T) {
	t.Parallel()
	s := start(t, "USERS=4", "ROOMS=2", "PAGES=1", "WAVES=false", "EVENTS_PER_SECOND=0.01")
	b := open(t, s.platform, desktop)
	b.joins("1")
	user := eval[string](b, `document.querySelector("#phone-1 .where").title.split(" ").at(-1)`)
	page := eval[string](b, `document.querySelector("#add-page").value`)
	offer := func(name string) {
		t.Helper()
		if err := s.send(t.Context(), page, `{"recipient":{"id":"`+user+`"},"message":{"text":"What now?","metadata":"`+broadcastID(page, name, user)+`","quick_replies":[`+
			`{"content_type":"text","title":"<b>Who?</b>","payload":"/who"},{"content_type":"text","title":"Rooms!","payload":"/rooms"}]}}`); err != nil {
			t.Fatal(err)
		}
		b.reads("1", "What now?")
	}
	const seen = `[...document.querySelectorAll("#phone-1 .taps.quick button")].filter(e => e.checkVisibility()).map(e => e.textContent)`
	offer("one")
	if got := eval[[]string](b, seen); strings.Join(got, ", ") != "<b>Who?</b>, Rooms!" {
		t.Errorf("quick replies = %q, want both as they are written", got)
	}
	b.tap("1", "<b>Who?</b>")
	b.reads("1", "You are alone in room 3.")
	if got := eval[string](b, `[...document.querySelectorAll("#phone-1 .talk li.mine")].at(-1).textContent`); got != "<b>Who?</b>sent" {
		t.Errorf("the tap is shown as %q, want the title of the button", got)
	}
	offer("two")
	b.says("1", "something else")
	b.until("it is sent", `document.querySelector("#phone-1 .talk li:last-child").dataset.state === "sent"`)
	if got := eval[[]string](b, seen); len(got) != 0 {
		t.Errorf("quick replies after another message = %q, want none", got)
	}
	b.run("load the page again", chromedp.Navigate(s.platform))
	b.until("the conversation is there", `document.querySelectorAll("#phone-1 .talk li").length >= 6`)
	if got := eval[[]string](b, seen); len(got) != 0 {
		t.Errorf("quick replies after loading the page again = %q, want none", got)
	}
	b.click("#phone-1 .block")
	b.until("the buttons are dead", `[...document.querySelectorAll("#phone-1 .taps")].every(e => e.inert || e.hidden)`)
}

// unseen checks that texts are not on phones. First a message from phone last
// must arrive, which comes behind them, so that they would be there.
func (b *tab) unseen(last string, texts map[string]string) {
	b.t.Helper()
	if last != "" {
		b.says(last, "this comes last")
	}
	for phone, text := range texts {
		if last != "" {
			b.until("the last text is on phone "+phone, got(phone, "this comes last"))
		}
		if eval[bool](b, got(phone, text)) {
			b.t.Errorf("phone %s shows %q, want it kept from it", phone, text)
		}
	}
}

// TestHostileOnThePage: the texts and names of hostile users are shown as they
// are, or refused in words. Nothing of them becomes a part of the page.
func TestHostileOnThePage(t *testing.T) {
	t.Parallel()
	s := start(t, "USERS=4", "ROOMS=2", "PAGES=1", "WAVES=false", "EVENTS_PER_SECOND=0.01")
	b := open(t, s.platform, desktop)
	for _, phone := range []string{"1", "2", "3"} {
		b.joins(phone)
	}
	const name = `<img src>'"--`
	b.says("1", "/name "+name)
	b.reads("1", "You are "+name+" now.")
	for _, text := range []string{
		`<script>alert(1)</script>`, `'; DROP TABLE users; --`, `$(reboot) && %s %n \u0000`, `{{7*7}} ${7*7}`, `javascript:alert(1)`,
	} {
		if got := b.name("1", "2", text); got != name {
			t.Errorf("name beside %q = %q, want %q", text, got, name)
		}
	}
	b.says("1", "/name Bob: hello")
	b.reads("1", "That cannot be a name.")
	b.run("write what cannot be typed", chromedp.Evaluate[chromedp.Void](
		`fetch("phones/1/messages", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text: "exe.\u202egpj\u0007 end" }) })`))
	b.until("the override is gone", got("2", "exe.gpj end"))
	b.run("write nothing visible", chromedp.Evaluate[chromedp.Void](
		`fetch("phones/1/messages", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text: "\u200b\u2060" }) })`))
	b.reads("1", "There was nothing readable in that message")
	b.tap("2", "Who is here?")
	b.tap("2", "Block "+name)
	b.reads("2", name+" is blocked.")
	if n := eval[int](b, `document.querySelectorAll(".talk img, .talk script").length`); n != 0 {
		t.Errorf("elements made of texts = %d, want 0", n)
	}
}
