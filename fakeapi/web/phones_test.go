package web_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/users"
	"chatclub/fakeapi/web"
)

func TestPhonesChat(t *testing.T) {
	t.Parallel()
	withPhones(t, asIs, func(p *phones) {
		p.wantTalk("1", "new", "")
		for _, id := range []string{"1", "2", "3"} {
			p.must("POST", "/phones/"+id+"/start", "")
		}
		p.must("POST", "/phones/1/messages", `{"text":" grüß <b>Gott</b> "}`)
		p.wantTalk("1", "joined", "Get Started(sent), welcome, grüß <b>Gott</b>(sent)")
		p.wantTalk("2", "joined", "Get Started(sent), welcome, grüß <b>Gott</b>")
		p.wantTalk("3", "joined", "Get Started(sent), welcome, grüß <b>Gott</b>")
		// 3 welcomes, which were announced, and 2 copies, which were not.
		p.wantLedger("events 4 expected 5 accepted 5 lost 0 duplicated 0 unexpected 0 excused 0")
	})
}

// TestPhonesJoined: messages that go out as one are shown in one bubble, each on
// a line of its own. The ids that belong to a phone's message were not announced.
func TestPhonesJoined(t *testing.T) {
	t.Parallel()
	withPhones(t, asIs, func(p *phones) {
		p.must("POST", "/phones/1/start", "")
		p.must("POST", "/phones/2/start", "")
		user := p.phone("1").User
		p.api.Announce("1", "m_1", []string{user}, 0)
		body := `{"recipient":{"id":"` + user + `"},"message":{"text":"Ann: hi\nBob: hello","metadata":"1/m_1/` + user + ` 1/m_phone-2/` + user + `"}}`
		if r := p.api.Ask("POST", "/1/messages", body, fakeapitest.Bearer("1")); r.Status != 200 {
			t.Fatalf("send = %d %s, want 200", r.Status, r.Body)
		}
		p.wantTalk("1", "joined", "Get Started(sent), welcome, Ann: hi\nBob: hello")
		p.wantLedger("events 3 expected 4 accepted 4 lost 0 duplicated 0 unexpected 0 excused 0")
		// To a user who is no phone only a phone's message may come unannounced.
		body = `{"recipient":{"id":"42"},"message":{"text":"a\nb","metadata":"1/m_2/42 1/m_phone-3/42"}}`
		p.api.Ask("POST", "/1/messages", body, fakeapitest.Bearer("1"))
		p.wantLedger("events 3 expected 5 accepted 6 lost 0 duplicated 0 unexpected 1 excused 0")
	})
}

// TestPhonesPicture: a built-in picture is shown as such wherever it comes
// back from, and no other address is.
func TestPhonesPicture(t *testing.T) {
	t.Parallel()
	withPhones(t, func(c *web.Config, _ *fakeapitest.Bot) { c.BaseURL = "http://fake.test" }, func(p *phones) {
		p.must("POST", "/phones/1/start", "")
		before := p.bot.Pictures.Load()
		p.must("POST", "/phones/1/messages", `{"picture":"cat"}`)
		if got := p.bot.Pictures.Load() - before; got != 1 {
			t.Errorf("pictures in the webhook = %d, want 1", got)
		}
		user := p.phone("1").User
		for _, address := range []string{"http://fake.test/pictures/cat.svg", "http://fake.test/pictures/../cat.svg", "https://elsewhere.test/cat.svg"} {
			body := `{"recipient":{"id":"` + user + `"},"message":{"attachment":{"type":"image","payload":{"url":"` + address + `"}}}}`
			p.api.Ask("POST", "/1/messages", body, fakeapitest.Bearer("1"))
		}
		p.wantTalk("1", "joined", "Get Started(sent), welcome, cat(sent), cat, http://fake.test/pictures/../cat.svg, https://elsewhere.test/cat.svg")
	})
}

func TestPhonesLeave(t *testing.T) {
	t.Parallel()
	withPhones(t, asIs, func(p *phones) {
		p.must("POST", "/phones/1/start", "")
		p.must("POST", "/phones/2/start", "")
		p.must("POST", "/phones/2/leave", "")
		p.must("POST", "/phones/1/messages", `{"text":"a"}`)
		if got := p.api.Answers()["551"]; got != 1 {
			t.Errorf("answers 551 = %d, want 1", got)
		}
		p.wantTalk("2", "left", "Get Started(sent), welcome")
		p.must("POST", "/phones/2/start", "")
		p.wantTalk("2", "joined", "Get Started(sent), welcome, Get Started(sent), welcome")
		two := p.phone("2").User
		p.must("DELETE", "/phones/2", "")
		if e := p.api.Send(two, "1/m_x/"+two).Error(t); e.Code != 551 {
			t.Errorf("send to a phone that is no more = %d, want 551", e.Code)
		}
		// On another page, and before it has joined, it is not there either.
		if e := p.api.Ask("POST", "/2/messages", fakeapitest.Text(p.phone("1").User, ""), fakeapitest.Bearer("2")).Error(t); e.Code != 551 {
			t.Errorf("send from another page = %d, want 551", e.Code)
		}
		if e := p.api.Send(p.phone("3").User, "").Error(t); e.Code != 551 {
			t.Errorf("send to a phone that has not joined = %d, want 551", e.Code)
		}
		p.wantLedger("events 4 expected 3 accepted 3 lost 0 duplicated 0 unexpected 0 excused 0")
	})
}

// TestPhonesAreJudged: a second copy for a phone is a duplicate, and an id of no
// event stays unexpected for every other user.
func TestPhonesAreJudged(t *testing.T) {
	t.Parallel()
	withPhones(t, func(_ *web.Config, b *fakeapitest.Bot) { b.Twice = func(n int64) bool { return n == 3 } }, func(p *phones) {
		p.must("POST", "/phones/1/start", "")
		p.must("POST", "/phones/2/start", "")
		p.must("POST", "/phones/1/messages", `{"text":"a"}`)
		p.api.Send("42", "1/m_nobody/42")
		p.api.Send("42", "1/m_phone-0123/42") // a copy of a phone's message
		p.wantLedger("events 3 expected 4 accepted 6 lost 0 duplicated 1 unexpected 1 excused 0")
	})
}

// TestPhonesWait: until Ready nothing is posted.
func TestPhonesWait(t *testing.T) {
	t.Parallel()
	var ready chan struct{}
	withPhones(t, func(c *web.Config, _ *fakeapitest.Bot) {
		ready = make(chan struct{}) // in the bubble
		c.Ready = ready
	}, func(p *phones) {
		p.must("POST", "/phones/1/start", "")
		time.Sleep(time.Hour)
		p.wantTalk("1", "joining", "Get Started(sending)")
		close(ready)
		synctest.Wait()
		p.wantTalk("1", "joined", "Get Started(sent), welcome")
	})
}

// TestPhonesWebhookFails: a message that the webhook does not take is shown as
// not delivered, and its copies are not expected.
func TestPhonesWebhookFails(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	withPhones(t, func(_ *web.Config, b *fakeapitest.Bot) { b.Fail = func(int64) bool { return down.Load() } }, func(p *phones) {
		p.must("POST", "/phones/1/start", "")
		down.Store(true)
		p.must("POST", "/phones/1/messages", `{"text":"a"}`)
		p.must("POST", "/phones/1/messages", `{"text":"b"}`)
		p.must("POST", "/phones/2/start", "")
		p.wantTalk("1", "joined", "Get Started(sent), welcome, a(sending), b(sending)")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		down.Store(false)
		p.wantTalk("1", "joined", "Get Started(sent), welcome, a(failed), b(sending)")
		p.wantTalk("2", "new", "Get Started(failed)")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		p.wantTalk("1", "joined", "Get Started(sent), welcome, a(failed), b(sent)")
		p.wantLedger("events 4 expected 1 accepted 1 lost 0 duplicated 0 unexpected 0 excused 1")
	})
}

func TestPhonesTyping(t *testing.T) {
	t.Parallel()
	withPhones(t, asIs, func(p *phones) {
		p.must("POST", "/phones/1/start", "")
		user := p.phone("1").User
		action := func(name string) {
			p.api.Ask("POST", "/1/messages", `{"recipient":{"id":"`+user+`"},"sender_action":"`+name+`"}`, fakeapitest.Bearer("1"))
		}
		want := func(when string, typing bool) {
			t.Helper()
			if got := p.phone("1").Typing; got != typing {
				t.Errorf("typing %s = %t, want %t", when, got, typing)
			}
		}
		want("at first", false)
		action("typing_on")
		want("after typing_on", true)
		action("mark_seen")
		time.Sleep(19 * time.Second)
		want("19 s later", true)
		time.Sleep(2 * time.Second)
		want("21 s later", false)
		action("typing_on")
		action("typing_off")
		want("after typing_off", false)
		action("typing_on")
		p.api.Send(user, "1/m_x/"+user)
		want("after a message", false)
	})
}

func TestPhonesKeepTheLatest(t *testing.T) {
	t.Parallel()
	withPhones(t, asIs, func(p *phones) {
		p.must("POST", "/phones/1/start", "")
		user := p.phone("1").User
		for i := range 150 {
			p.api.Send(user, fmt.Sprintf("1/m_%d/%s", i, user))
		}
		if f := p.phone("1"); len(f.Messages) != 100 || f.First != 53 {
			t.Errorf("messages kept = %d from number %d, want 100 from 53 of 152", len(f.Messages), f.First)
		}
	})
}

func TestPhonesRefuse(t *testing.T) {
	t.Parallel()
	withPhones(t, asIs, func(p *phones) {
		p.must("POST", "/phones/1/start", "")
		for _, tc := range []struct {
			method, path, body string
			want               int
		}{
			{"POST", "/phones/1/start", "", 409},
			{"POST", "/phones/2/leave", "", 409},
			{"POST", "/phones/2/messages", `{"text":"a"}`, 409},
			{"POST", "/phones/9/start", "", 404},
			{"DELETE", "/phones/9", "", 404},
			{"POST", "/phones/1/dance", "", 404},
			{"PUT", "/phones", "", 404},
			{"POST", "/phones/1/messages", `{}`, 400},
			{"POST", "/phones/1/messages", `{"text":" \n"}`, 400},
			{"POST", "/phones/1/messages", `{"text":"a","picture":"cat"}`, 400},
			{"POST", "/phones/1/messages", `{"picture":"../icon"}`, 400},
			{"POST", "/phones/1/messages", `{"text":"` + strings.Repeat("ä", 2001) + `"}`, 400},
			{"POST", "/phones/1/messages", `{"text":`, 400},
			{"POST", "/phones", `{"page":"3"}`, 400},
			{"POST", "/phones", `{"pages":"1"}`, 400},
		} {
			if r := p.ask(tc.method, tc.path, tc.body); r.Status != tc.want || !strings.Contains(r.Body, `{"error":"`) {
				t.Errorf("%s %s %.40s = %d %s, want %d and an error", tc.method, tc.path, tc.body, r.Status, r.Body, tc.want)
			}
		}
		for range 5 {
			p.must("POST", "/phones", `{"page":"2"}`)
		}
		if r := p.ask("POST", "/phones", ""); r.Status != 409 {
			t.Errorf("a ninth phone = %d, want 409", r.Status)
		}
	})
}

// TestNoPhones: a platform that knows no webhook has a page without phones.
func TestNoPhones(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{})
		s, err := web.New(web.Config{API: a.API})
		if err != nil {
			t.Fatal(err)
		}
		if r := a.Ask("GET", "/phones", ""); r.Status != 404 || !strings.Contains(r.Body, "there are no phones") {
			t.Errorf("GET /phones without phones = %d %s, want 404", r.Status, r.Body)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Run(ctx); err != nil || ctx.Err() == nil {
			t.Errorf("Run = %v before ctx ended, want nil after", err)
		}
	})
}

func TestNewNamesFaults(t *testing.T) {
	t.Parallel()
	a := fakeapitest.New(t, fakeapi.Config{})
	good := web.Config{API: a.API, Webhook: fakeapitest.NewBot(a, 5).Webhook(), Pages: []string{"1"}}
	for name, change := range map[string]func(*web.Config){
		"API":    func(c *web.Config) { c.API = nil },
		"URL":    func(c *web.Config) { c.Webhook.URL = "nowhere" },
		"Secret": func(c *web.Config) { c.Webhook.Secret = "" },
		"Pages":  func(c *web.Config) { c.Pages = nil },
		"Phones": func(c *web.Config) { c.Phones = 9 },
	} {
		c := good
		change(&c)
		if _, err := web.New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New with a wrong %s = %v, want it named", name, err)
		}
	}
	if _, err := web.New(good); err != nil {
		t.Errorf("New = %v, want nil", err)
	}
	if _, err := web.New(good); err == nil {
		t.Error("New once more for one platform = nil, want an error")
	}
}

// TestPhonesAfterTheUsers: phones come into no simulated room, because they
// wait until these are full.
func TestPhonesAfterTheUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fakeapitest.New(t, fakeapi.Config{})
		b := fakeapitest.NewBot(a, 5)
		s, err := users.New(users.Config{API: a.API, Webhook: b.Webhook(), Rooms: 2, Users: 5, EventsPerSecond: 20, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		f, err := web.New(web.Config{API: a.API, Webhook: b.Webhook(), Pages: s.Pages(), Ready: s.Joined()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		p := &phones{t, a, b}
		p.must("POST", "/phones/1/start", "")
		p.must("POST", "/phones/2/start", "")
		if err := s.Run(ctx, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		p.must("POST", "/phones/1/messages", `{"text":"a"}`)
		p.wantTalk("2", "joined", "Get Started(sent), welcome, a")
		p.wantLedger("events 113 expected 413 accepted 413 lost 0 duplicated 0 unexpected 0 excused 0")
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}
