package main

import (
	"bytes"
	"io"
	"math"
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

func TestInterval(t *testing.T) {
	t.Parallel()
	list := func(n int) []float64 {
		l := make([]float64, n)
		for i := range l {
			l[i] = float64(n - i)
		}
		return l
	}
	// As tables of the sign test give them: order statistics for n values.
	for _, tt := range []struct {
		n         int
		low, high float64
	}{{6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {12, 3, 10}, {20, 6, 15}, {5, math.Inf(-1), math.Inf(1)}} {
		if low, high := interval(list(tt.n)); low != tt.low || high != tt.high {
			t.Errorf("interval(%d values) = %g, %g, want %g, %g", tt.n, low, high, tt.low, tt.high)
		}
	}
	if got := median([]float64{9, 1, 2, 4}); got != 3 {
		t.Errorf("median = %g, want 3", got)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	around := func(middle, spread float64) []float64 {
		var l []float64
		for i := -5; i <= 5; i++ {
			l = append(l, middle+spread*float64(i)/5)
		}
		return l
	}
	quietly := around(1, 0.05)
	for _, tt := range []struct {
		name             string
		ratios, controls []float64
		want             string
	}{
		{"below", around(1.1, 0.1), quietly, "met"},
		{"above", around(1.4, 0.1), quietly, "missed"},
		{"around", around(1.2, 0.1), quietly, "inconclusive"},
		{"a control aside", around(1.1, 0.1), around(1.2, 0.05), "inconclusive"},
		{"a wide control", around(1.1, 0.1), around(1, 0.5), "inconclusive"},
		{"too few", around(1.1, 0.1), quietly[:5], "inconclusive"},
	} {
		if got := verdict(tt.ratios, tt.controls, 1.2); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: verdict = %s, want %s", tt.name, got, tt.want)
		}
	}
}
