package orders

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// TestSettingsAreCompared: programs that run beside each other with other settings say so,
// both, once an hour, until one has begun again with the same.
func TestSettingsAreCompared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memorytest.New(t, queue.Topology{Prefix: "t", Partitions: 1})
		type program struct {
			*Book
			log bytes.Buffer
			end func()
		}
		start := func(s Settings) *program {
			p := &program{Book: NewBook()}
			p.Compare(s)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- p.Follow(ctx, b, slog.New(slog.NewTextHandler(&p.log, &slog.HandlerOptions{Level: slog.LevelError})), func(Order) {})
			}()
			p.end = func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			time.Sleep(5 * time.Second) // a stream is slow
			synctest.Wait()
			return p
		}
		// check wants so many lines since the last check, and these in the handler's answer.
		check := func(when string, p *program, lines int, differ string) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(p.log.String(), "another program has other settings"); got != lines {
				t.Errorf("%s a %s logged %d lines, want %d:\n%s", when, p.peers.own.Program, got, lines, p.log.String())
			}
			p.log.Reset()
			w := httptest.NewRecorder()
			p.SettingsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/settings", nil))
			if got := w.Body.String(); !strings.Contains(got, `"differ":[`+differ+"]") {
				t.Errorf("%s a %s tells %s, want that %s differ", when, p.peers.own.Program, got, differ)
			}
		}
		const other = `{"program":"core","protocol":1,"limit_text":200,"limit_media":10}`
		const ours = `{"program":"dispatcher","protocol":1,"limit_text":300,"limit_media":10}`
		right := Settings{Program: "dispatcher", Protocol: 1, Text: 300, Media: 10}

		gone := start(Settings{Program: "core", Protocol: 1, Text: 100, Media: 10})
		gone.end()
		older := start(Settings{}) // of an earlier version, which tells none
		first, second := start(right), start(right)
		time.Sleep(10 * time.Hour)
		check("beside others with the same", first, 0, "")
		check("beside others with the same", second, 0, "")

		wrong := start(Settings{Program: "core", Protocol: 1, Text: 200, Media: 10})
		check("at the start of a core", first, 1, other)
		check("at the start of a core", second, 1, other)
		check("at its start", wrong, 1, ours)
		third := start(right)
		time.Sleep(answerPause)
		check("beside one that began before it", third, 1, other)
		for range 3 {
			time.Sleep(time.Hour)
			for _, p := range []*program{first, second, third} {
				check("an hour later", p, 1, other)
			}
			check("an hour later", wrong, 1, ours)
		}

		wrong.end()
		mended := start(Settings{Program: "core", Protocol: 1, Text: 300, Media: 10})
		for _, p := range []*program{first, second, third, mended} {
			check("when it has begun again", p, 0, "")
		}
		time.Sleep(10 * time.Hour)
		for _, p := range []*program{first, second, third, mended, older} {
			check("hours later", p, 0, "")
			p.end()
		}
	})
}

// TestSettingsOfAProgramThatIsGone are forgotten.
func TestSettingsOfAProgramThatIsGone(t *testing.T) {
	t.Parallel()
	p := peers{own: Settings{Program: "a", Text: 1}, others: make(map[Settings]*heard)}
	now := time.Unix(1_000_000, 0)
	if reply, _, differ := p.hear(mark{Settings{Program: "b", Text: 2}, true}, now); reply != &p.answer || !differ {
		t.Errorf("hear() of others = reply %v, differ %v, want an answer and a line", reply, differ)
	}
	for i, want := range []bool{true, false, false} {
		if got := p.asks(now.Add(time.Duration(i+1) * askEvery)); got != want {
			t.Errorf("asks() after %d hours = %v, want %v", i+1, got, want)
		}
	}
}
