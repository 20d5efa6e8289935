package users_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"chatclub/fakeapi"
	"chatclub/fakeapi/fakeapitest"
	"chatclub/fakeapi/users"
	"chatclub/fakeapi/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is a run of users against a bot.
type run struct {
	platform *fakeapitest.Platform
	bot      *fakeapitest.Bot
	users    *users.Users
}

// newUsers makes users of a bot's.
func newUsers(t *testing.T, c users.Config) *users.Users {
	t.Helper()
	u, err := users.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A run without errors: 30 joins with a welcome each, and 200 events for the
// four others of a room.
const clean = "events 230 expected 830 accepted 830 lost 0 duplicated 0 unexpected 0 excused 0"

// scenario is a run of 3 rooms of 5 users on each of 2 pages, who write 20
// messages a second for ten seconds. A nil function changes nothing.
type scenario struct {
	platform func(*testing.T, *fakeapi.Settings)
	users    func(*users.Config)
	bot      func(*fakeapitest.Bot)

	want  string // the ledger's line; empty: not compared
	check func(*testing.T, run)
}

// play runs the scenario in a bubble.
func (s scenario) play(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fakeapitest.New(t, fakeapi.Config{Settings: fakeapitest.Settings(func(set *fakeapi.Settings) {
			if s.platform != nil {
				s.platform(t, set)
			}
		})})
		b := fakeapitest.NewBot(p, 5)
		if s.bot != nil {
			s.bot(b)
		}
		c := users.Config{API: p.API, Webhook: b.Webhook(), Pages: 2, Rooms: 3, Users: 5, EventsPerSecond: 20, Seed: 1}
		if s.users != nil {
			s.users(&c)
		}
		u := newUsers(t, c)
		if _, err := u.Play(t.Context(), t.Context(), users.PlayOptions{Duration: 10 * time.Second, Settle: 2 * time.Minute}); err != nil {
			t.Fatalf("Play = %v, want nil", err)
		}
		b.Wait()
		if n := b.BadSignature.Load(); n > 0 {
			t.Errorf("webhooks with a wrong signature = %d, want 0", n)
		}
		if got := p.Line(); s.want != "" && got != s.want {
			t.Errorf("ledger = %s\n           want %s", got, s.want)
		}
		if s.check != nil {
			s.check(t, run{p, b, u})
		}
	})
}

func TestUsersAndLedger(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]scenario{
		"clean": {want: clean},
		"batches": {
			users: func(c *users.Config) { c.Batches = 1 },
			check: func(t *testing.T, r run) {
				t.Helper()
				if c := r.platform.Ledger().Totals(); c.Lost+c.Duplicated+c.Unexpected > 0 || c.Events < 230 {
					t.Errorf("ledger = %s, want at least 230 events, and all balanced", r.platform.Line())
				}
				if c := r.users.Counts(); c.Posts >= c.Events-90 {
					t.Errorf("posts = %d for %d events, want fewer", c.Posts, c.Events)
				}
			},
		},
		"duplicated webhooks": {
			users: func(c *users.Config) { c.Duplicates = .5 },
			want:  clean,
			check: func(t *testing.T, r run) {
				t.Helper()
				if n := r.users.Counts().Repeats; n < 60 || n != r.bot.Repeated.Load() {
					t.Errorf("repeats = %d, the bot saw %d, want the same, about 100", n, r.bot.Repeated.Load())
				}
			},
		},
		"out of order": {
			users: func(c *users.Config) { c.OutOfOrder = .5 },
			want:  clean,
		},
		"pictures": {
			users: func(c *users.Config) { c.Pictures = .5 },
			check: func(t *testing.T, r run) {
				t.Helper()
				pictures := r.bot.Pictures.Load()
				// Each picture is one message more for each of the four others.
				want := fmt.Sprintf("events 230 expected %d accepted %[1]d lost 0 duplicated 0 unexpected 0 excused 0", 830+4*pictures)
				if got := r.platform.Line(); got != want {
					t.Errorf("ledger = %s\n           want %s", got, want)
				}
				if n := r.users.Counts().Pictures; n < 70 || n > 130 || pictures < n*3/2 || pictures > n*5/2 {
					t.Errorf("messages with pictures = %d with %d pictures, want about 100 with two each", n, pictures)
				}
			},
		},
		"webhook fails at times": {
			bot:  func(b *fakeapitest.Bot) { b.Fail = func(n int64) bool { return n%3 == 0 } },
			want: clean,
			check: func(t *testing.T, r run) {
				t.Helper()
				if c := r.users.Counts(); c.Retries < 100 || c.Undelivered != 0 || c.Posts != c.Retries+230 {
					t.Errorf("counts = %+v, want about 115 retries, and posts = retries + 230", c)
				}
			},
		},
		"copies are lost": {
			bot:  func(b *fakeapitest.Bot) { b.Lose = func(n int64) bool { return n > 30 && n%100 == 0 } },
			want: "events 230 expected 830 accepted 822 lost 8 duplicated 0 unexpected 0 excused 0",
		},
		"copies are duplicated": {
			bot:  func(b *fakeapitest.Bot) { b.Twice = func(n int64) bool { return n%100 == 0 } },
			want: "events 230 expected 830 accepted 838 lost 0 duplicated 8 unexpected 0 excused 0",
		},
		"rooms of another size": {
			bot: func(b *fakeapitest.Bot) { b.Capacity = 6 },
			check: func(t *testing.T, r run) {
				t.Helper()
				if c := r.platform.Ledger().Totals(); c.Lost == 0 || c.Unexpected == 0 {
					t.Errorf("ledger = %s, want copies lost and unexpected", r.platform.Line())
				}
			},
		},
		"platform with faults": {
			platform: func(t *testing.T, s *fakeapi.Settings) {
				t.Helper()
				s.Text.PerSecond = 30 // of 40/s needed in the chat
				s.Faults = fakeapi.Faults{ServerError: .05, ResetBefore: .05}
				s.Latency = fakeapitest.Latency(t, "lognormal:40ms,150ms")
			},
			want: clean,
		},
		"platform that lies": {
			platform: func(_ *testing.T, s *fakeapi.Settings) { s.Faults.ResetAfter = .2 },
			check: func(t *testing.T, r run) {
				t.Helper()
				if c := r.platform.Ledger().Totals(); c.Lost != 0 || c.Duplicated < 100 || c.Accepted != c.Expected+c.Duplicated {
					t.Errorf("ledger = %s, want nothing lost and every fifth copy duplicated by the retry", r.platform.Line())
				}
			},
		},
		"receipts": {
			users: func(c *users.Config) { c.Receipts = true },
			want:  clean,
			check: func(t *testing.T, r run) {
				t.Helper()
				if echoes, receipts := r.bot.Echoes.Load(), r.users.Counts().Receipts; echoes < 700 || receipts < 1400 {
					t.Errorf("echoes = %d, receipts = %d, want at least 700 and 1400", echoes, receipts)
				}
			},
		},
		"bad recipients": {
			users: func(c *users.Config) { c.BadRecipients = .2 },
			check: func(t *testing.T, r run) {
				t.Helper()
				if c := r.platform.Ledger().Totals(); c.Lost != 0 || c.Rejected == 0 || c.Unexpected != 0 {
					t.Errorf("ledger = %s rejected %d, want nothing lost although some cannot be sent to", r.platform.Line(), c.Rejected)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.play(t)
		})
	}
}

// TestOpenLoop: a slow webhook does not slow the users.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeapitest.New(t, fakeapi.Config{})
		b := fakeapitest.NewBot(p, 5)
		hook := b.Webhook()
		hook.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return b.RoundTrip(r)
		})
		u := newUsers(t, users.Config{API: p.API, Webhook: hook, Users: 5, EventsPerSecond: 50})
		if err := u.Run(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		b.Wait()
		c := u.Counts()
		if c.Events != 5+500 {
			t.Errorf("events in 10 s at 50/s = %d, want 500 and 5 joins", c.Events)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSkips: when too many webhooks are unanswered, events are skipped and
// counted, and the ledger expects nothing of them.
func TestSkips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeapitest.New(t, fakeapi.Config{})
		b := fakeapitest.NewBot(p, 5)
		hook := b.Webhook()
		hook.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if b.Webhooks.Load() >= 5 { // all have joined
				time.Sleep(3 * time.Second)
			}
			return b.RoundTrip(r)
		})
		u := newUsers(t, users.Config{API: p.API, Webhook: hook, Users: 5, EventsPerSecond: 10, MaxInFlight: 6})
		if err := u.Run(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		b.Wait()
		if c := u.Counts(); c.Events != 5+6 || c.Skipped != 4 {
			t.Errorf("events = %d, skipped = %d, want 6 beside 5 joins, and the other 4", c.Events, c.Skipped)
		}
		if got, want := p.Line(), "events 11 expected 29 accepted 29 lost 0 duplicated 0 unexpected 0 excused 0"; got != want {
			t.Errorf("ledger = %s\n           want %s", got, want)
		}
	})
}

// TestRunEnds: a canceled run withdraws its unanswered events and leaves no
// goroutine behind, because the bubble would not end then.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeapitest.New(t, fakeapi.Config{})
		b := fakeapitest.NewBot(p, 5)
		hook := b.Webhook()
		hook.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if b.Webhooks.Load() < 5 {
				return b.RoundTrip(r)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		u := newUsers(t, users.Config{API: p.API, Webhook: hook, Users: 5, Receipts: true, OutOfOrder: .5})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := u.Run(ctx, 0); err != nil {
			t.Errorf("Run = %v, want nil after cancel", err)
		}
		b.Wait()
		if got := p.Ledger().Totals(); got.Lost != 0 || got.Excused == 0 {
			t.Errorf("ledger = %s, want nothing lost and the unanswered excused", p.Line())
		}
	})
}

func TestJoinWithoutWelcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeapitest.New(t, fakeapi.Config{})
		b := fakeapitest.NewBot(p, 5)
		b.Lose = func(n int64) bool { return n == 3 }
		err := newUsers(t, users.Config{API: p.API, Webhook: b.Webhook()}).Join(t.Context())
		b.Wait()
		if err == nil || !strings.Contains(err.Error(), "join user 2 of page 100000000000000: no welcome") {
			t.Errorf("Join with a lost welcome = %v, want it to name the user", err)
		}
	})
}

func TestNewNamesFaults(t *testing.T) {
	t.Parallel()
	_, err := users.New(users.Config{Webhook: webhook.Config{URL: "nowhere"}, Pages: -1, Users: 1, EventsPerSecond: -1, Duplicates: 2})
	for _, want := range []string{"API", "URL", "Secret", "Pages", "Users", "EventsPerSecond", "Duplicates"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(all wrong) = %v, want it to name %s", err, want)
		}
	}
}

// TestFreshPage: runs that begin at different times share no page. Users' ids keep
// their form, by which they are told from the phones'.
func TestFreshPage(t *testing.T) {
	t.Parallel()
	now := time.Unix(98_999_999+20*99_000_000, 0)
	if a, b := users.FreshPage(now), users.FreshPage(now.Add(-time.Second)); a-b != 1000 {
		t.Errorf("first pages of two runs, a second apart, are %d and %d, want 1000 between them", b, a)
	}
	p := fakeapitest.New(t, fakeapi.Config{})
	u := newUsers(t, users.Config{API: p.API, Webhook: fakeapitest.NewBot(p, 5).Webhook(), FirstPage: users.FreshPage(now), Pages: 1000})
	page := u.Pages()[999]
	if ids := u.Copies(page, "m_1", "1989999999990000004"); len(page) != 15 || len(ids) != 10 || ids[0] != page+"/m_1/1989999999990000000" {
		t.Errorf("Copies on page %s = %v, want those for ten users of 19 digits", page, ids)
	}
	for _, user := range []string{"1989999999990000010", "1989999999980000000", "2000000000000000000", "x"} {
		if ids := u.Copies(page, "m_1", user); ids != nil {
			t.Errorf("Copies for %s, who is none of the page's = %v, want none", user, ids)
		}
	}
}
