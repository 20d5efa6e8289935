package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/message"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/sender"
)

// TestMain is the process of a side when dispatchcost starts itself.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-serve") {
		main()
	}
	rabbittest.Main(m)
}

// TestMeasure has a small load sent by both sides, and judged. What it cost is
// not.
func TestMeasure(t *testing.T) {
	t.Setenv("AMQP_URL", rabbittest.URL(t))
	for _, sides := range []string{"bare,dispatcher", "dispatcher,batch"} {
		t.Run(sides, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := []string{"-sides", sides, "-pairs", "2", "-messages", "40", "-pages", "4"}
			if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
				t.Fatalf("run = %d %s, want 0", code, &errs)
			}
			a, b, _ := strings.Cut(sides, ",")
			want := regexp.MustCompile(`^(pair \d: ` + a + ` [\d.]+ µs, ` + b + ` [\d.]+ µs of CPU a message: \S+\n){2}` +
				a + `: median [\d.]+ µs of CPU a message, 1.00 messages a request\n` +
				b + `: median [\d.]+ µs of CPU a message, [\d.]+ messages a request\n` +
				`ratio: .*\ncontrol .*\nat most 1.2: inconclusive: .*\n$`)
			if !want.Match(out.Bytes()) {
				t.Errorf("printed %q, want two pairs and what they come to", &out)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-pairs", "0"}, {"-messages", "-1"}, {"-quota", "0"}, {"-rate", "-1"}, {"-latency", "slow"}, {"-sides", "bare"}, {"-sides", "bare,x"}, {"more"}, {"-serve", "nothing"},
	} {
		if code := run(t.Context(), args, strings.NewReader(""), io.Discard, io.Discard); code == 0 {
			t.Errorf("run %v = 0, want an error", args)
		}
	}
}

// TestTheLoopPostsWhatTheSenderDoes: body and header are the same.
func TestTheLoopPostsWhatTheSenderDoes(t *testing.T) {
	t.Parallel()
	b := &bench{config: config{pages: 3}}
	var got []byte
	s, err := sender.New(sender.Config{
		BaseURL: "http://x", Tokens: sender.StaticTokens(map[string]string{fakeapi.PageID(0): token(fakeapi.PageID(0))}), MaxInFlight: 1, CallTimeout: time.Second,
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			var err error
			got, err = io.ReadAll(r.Body)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, err
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	o, err := message.DecodeOutbound(b.crowd("q", nameDispatcher, 1)[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	s.Send(t.Context(), o)
	if want := bodyFor(nameBare, o); !bytes.Equal(want, got) {
		t.Errorf("the sender posts %s, the loop %s", got, want)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
