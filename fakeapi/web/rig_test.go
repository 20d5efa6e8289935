package web_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// phones are those of a test, asked as the page asks them.
type phones struct {
	t   *testing.T
	api *fakeapitest.Platform
	bot *fakeapitest.Bot
}

type phoneView struct {
	ID, User, State string
	Typing          bool
	First           int
	Messages        []struct {
		State, Text, Picture, URL string
		Tap                       bool
	}
}

// withPhones runs a test with three phones against a bot in a bubble.
func withPhones(t *testing.T, change func(*web.Config, *fakeapitest.Bot), test func(*phones)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{})
		b := fakeapitest.NewBot(a, 5)
		c := web.Config{API: a.API, Webhook: b.Webhook(), Pages: []string{"1", "2"}}
		change(&c, b)
		p, err := web.New(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		test(&phones{t, a, b})
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil after cancel", err)
		}
		b.Wait()
	})
}

// ask makes a request about the phones and lets everything that follows from
// it happen.
func (p *phones) ask(method, path, body string) fakeapitest.Reply {
	p.t.Helper()
	r := p.api.Ask(method, path, body)
	synctest.Wait()
	p.bot.Wait()
	synctest.Wait()
	return r
}

func (p *phones) must(method, path, body string) {
	p.t.Helper()
	if r := p.ask(method, path, body); r.Status != 200 {
		p.t.Fatalf("%s %s = %d %s, want 200", method, path, r.Status, r.Body)
	}
}

func (p *phones) all() (list []phoneView) {
	p.t.Helper()
	var r struct{ Phones []phoneView }
	if err := json.Unmarshal([]byte(p.ask("GET", "/phones", "").Body), &r); err != nil {
		p.t.Fatal(err)
	}
	return r.Phones
}

func (p *phones) phone(id string) phoneView {
	p.t.Helper()
	for _, f := range p.all() {
		if f.ID == id {
			return f
		}
	}
	p.t.Fatalf("phone %s is not there", id)
	return phoneView{}
}

// talk is a phone's conversation in short.
func (f phoneView) talk() string {
	var words []string
	for _, m := range f.Messages {
		w := m.Text + m.Picture + m.URL
		if m.State != "" {
			w += "(" + m.State + ")"
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

func (p *phones) wantTalk(id, state, want string) {
	p.t.Helper()
	if f := p.phone(id); f.State != state || f.talk() != want {
		p.t.Errorf("phone %s = %s: %s\nwant %s: %s", id, f.State, f.talk(), state, want)
	}
}

func (p *phones) wantLedger(want string) {
	p.t.Helper()
	if got := p.api.Line(); got != want {
		p.t.Errorf("ledger = %s\n           want %s", got, want)
	}
}

func asIs(*web.Config, *fakeapitest.Bot) {}
