package sender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/fakeapi"
	"chatclub/internal/message"
)

// platform is the fake platform behind a Batcher of 20 ms.
type platform struct {
	*Batcher
	api      *fakeapi.API
	requests []string // paths, in order

	mu sync.Mutex
}

func batching(t *testing.T, size int, change func(*fakeapi.Settings)) *platform {
	t.Helper()
	settings := fakeapi.DefaultSettings()
	settings.Latency = fakeapi.Latency{}
	if change != nil {
		change(&settings)
	}
	api, err := fakeapi.New(fakeapi.Config{Settings: &settings})
	if err != nil {
		t.Fatal(err)
	}
	p := &platform{api: api}
	send := setup(t, func(c *Config) {
		c.Tokens = StaticTokens(map[string]string{"1": "token-1", "2": "token-2", "3": "token-4"})
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			p.mu.Lock()
			p.requests = append(p.requests, r.URL.Path)
			p.mu.Unlock()
			return api.Transport().RoundTrip(r)
		})
	})
	if p.Batcher, err = NewBatcher(BatchConfig{Sender: send, Size: size, Wait: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return p
}

// copies are n messages to different people of a page.
func copies(page string, n int) []message.Outbound {
	list := make([]message.Outbound, n)
	for i := range list {
		to := fmt.Sprint(100 + i)
		list[i] = message.Outbound{ID: page + "/m/" + to, Page: page, To: to, Class: message.ClassText, Text: "50 % & \"more\" = 你\n"}
	}
	return list
}

// sendAll sends all at once and returns their outcomes.
func sendAll(ctx context.Context, p *platform, list ...message.Outbound) []Outcome {
	outcomes := make([]Outcome, len(list))
	var calls sync.WaitGroup
	for i, o := range list {
		calls.Go(func() { outcomes[i] = p.Send(ctx, o).Outcome })
	}
	calls.Wait()
	return outcomes
}

// count tells how many there are of each.
func count(outcomes []Outcome) map[Outcome]int {
	n := make(map[Outcome]int)
	for _, o := range outcomes {
		n[o]++
	}
	return n
}

func TestBatch(t *testing.T) {
	t.Parallel()
	const batch = "/v23.0/"
	for _, tt := range []struct {
		name     string
		size     int
		change   func(*fakeapi.Settings)
		list     []message.Outbound
		want     map[Outcome]int
		requests []string
		took     time.Duration
		accepted int64
	}{
		{"calls of one page go together", 50, nil, copies("1", 5), map[Outcome]int{Sent: 5}, []string{batch}, 20 * time.Millisecond, 5},
		{"a full batch does not wait", 5, nil, copies("1", 5), map[Outcome]int{Sent: 5}, []string{batch}, 0, 5},
		{"a lone call is made by itself", 50, nil, copies("1", 1), map[Outcome]int{Sent: 1}, []string{"/v23.0/1/messages"}, 20 * time.Millisecond, 1},
		{"what is left over", 2, nil, copies("1", 3), map[Outcome]int{Sent: 3}, []string{batch, "/v23.0/1/messages"}, 20 * time.Millisecond, 3},
		{
			"each counts against the limit", 50, func(s *fakeapi.Settings) { s.Text.PerSecond = 3 }, copies("1", 5),
			map[Outcome]int{Sent: 3, PageThrottled: 2},
			[]string{batch},
			20 * time.Millisecond, 3,
		},
		{
			"null is no answer", 50, func(s *fakeapi.Settings) { s.Faults.NullItem = 1 }, copies("1", 5),
			map[Outcome]int{Transient: 5},
			[]string{batch},
			20 * time.Millisecond, 5,
		},
		{
			"each has its own fault", 50, nil, append(copies("1", 2), message.Outbound{ID: "x", Page: "1", To: "error-551", Text: "x"}),
			map[Outcome]int{Sent: 2, RecipientGone: 1},
			[]string{batch},
			20 * time.Millisecond, 2,
		},
		{"a wrong token", 50, nil, copies("3", 3), map[Outcome]int{PageStopped: 3}, []string{batch}, 20 * time.Millisecond, 0},
		{"no token", 50, nil, copies("4", 3), map[Outcome]int{NoToken: 3}, nil, 20 * time.Millisecond, 0},
		{"a page that is none", 50, nil, copies("../x", 3), map[Outcome]int{BadMessage: 3}, nil, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := batching(t, tt.size, tt.change)
				start := time.Now()
				got := count(sendAll(t.Context(), p, tt.list...))
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if diff := cmp.Diff(tt.requests, p.requests); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if got := p.api.Ledger().Totals().Accepted; got != tt.accepted {
					t.Errorf("the ledger has %d accepted, want %d", got, tt.accepted)
				}
			})
		})
	}
}

// TestBatchOfEachPage: pages do not share a request, and a batch that has left
// is not joined.
func TestBatchOfEachPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := batching(t, 50, func(s *fakeapi.Settings) {
			if err := s.Latency.UnmarshalText([]byte("fixed:1s")); err != nil {
				t.Fatal(err)
			}
		})
		var calls sync.WaitGroup
		calls.Go(func() { sendAll(t.Context(), p, append(copies("1", 3), copies("2", 2)...)...) })
		time.Sleep(100 * time.Millisecond)
		r := p.Send(t.Context(), copies("1", 4)[3])
		calls.Wait()
		if r.Outcome != Sent || r.Latency != time.Second {
			t.Errorf("Send = %v after %v, want sent after 1s: the wait is no latency", r.Outcome, r.Latency)
		}
		if want := []string{"/v23.0/", "/v23.0/", "/v23.0/1/messages"}; !cmp.Equal(want, p.requests) {
			t.Errorf("requests = %v, want %v", p.requests, want)
		}
		if got := p.api.Ledger().Totals(); got.Accepted != 6 || got.Duplicated != 0 {
			t.Errorf("the ledger has %d accepted, %d duplicated, want 6 and 0", got.Accepted, got.Duplicated)
		}
	})
}

func TestBatchCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := batching(t, 50, nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		got := append(sendAll(ctx, p, copies("1", 3)...), sendAll(ctx, p, copies("1", 1)...)...)
		if diff := cmp.Diff(map[Outcome]int{Canceled: 4}, count(got)); diff != "" || p.requests != nil {
			t.Errorf("%d requests, want none; outcomes (-want +got):\n%s", len(p.requests), diff)
		}
	})
}

func TestClassifyBatch(t *testing.T) {
	t.Parallel()
	sent := `{"code":200,"body":"{\"recipient_id\":\"1\",\"message_id\":\"m_1\"}"}`
	refused := `{"code":400,"body":"{\"error\":{\"code\":613}}"}`
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   []string
	}{
		{"each its own", 200, "[" + sent + "," + refused + ",null]", []string{"sent", "page_throttled 613", "transient http 200"}},
		{"too short", 200, "[" + sent + "]", []string{"sent", "transient http 200", "transient http 200"}},
		{"too long", 200, "[" + sent + "," + sent + "," + sent + "," + refused + "]", []string{"sent", "sent", "sent"}},
		{"cut off", 200, "[" + sent + ",", []string{"transient http 200", "transient http 200", "transient http 200"}},
		{"nothing", 200, "", []string{"transient http 200", "transient http 200", "transient http 200"}},
		{"an object", 200, `{"message_id":"m_1"}`, []string{"transient http 200", "transient http 200", "transient http 200"}},
		{"an error", 400, envelope(4, 0, ""), []string{"app_throttled 4", "app_throttled 4", "app_throttled 4"}},
		{"a gateway", 502, "<html>", []string{"transient http 502", "transient http 502", "transient http 502"}},
	} {
		results := make([]Result, 3)
		classifyBatch(tt.status, []byte(tt.body), results)
		var got []string
		for _, r := range results {
			got = append(got, strings.TrimSpace(r.Outcome.String()+" "+r.CodeString()))
			if (r.Err == nil) != (r.Outcome == Sent) {
				t.Errorf("%s: err %v with outcome %v", tt.name, r.Err, r.Outcome)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestNewBatcherNamesEveryFault(t *testing.T) {
	t.Parallel()
	for _, cfg := range []BatchConfig{{}, {Size: MaxBatch + 1, Wait: -1}} {
		_, err := NewBatcher(cfg)
		for _, name := range []string{"Sender", "Size", "Wait"} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("NewBatcher(%+v) = %v, want an error that names %s", cfg, err, name)
			}
		}
	}
}

// unbatched turns the body of a batch request back into the bodies of its calls.
func unbatched(body []byte) (bodies []any, err error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	var list []struct {
		Method string `json:"method"`
		URL    string `json:"relative_url"`
		Body   string `json:"body"`
	}
	if err := json.Unmarshal([]byte(form.Get("batch")), &list); err != nil {
		return nil, err
	}
	for _, item := range list {
		fields, err := url.ParseQuery(item.Body)
		if err != nil {
			return nil, err
		}
		var recipient, msg any
		if err := errors.Join(json.Unmarshal([]byte(fields.Get("recipient")), &recipient), json.Unmarshal([]byte(fields.Get("message")), &msg)); err != nil {
			return nil, err
		}
		bodies = append(bodies, map[string]any{"recipient": recipient, "messaging_type": fields.Get("messaging_type"), "message": msg})
		if item.Method != http.MethodPost || item.URL != "1/messages" {
			return nil, fmt.Errorf("item is %s %s", item.Method, item.URL)
		}
	}
	return bodies, nil
}

func FuzzEncodeBatch(f *testing.F) {
	f.Add("2", "1/m/2", "a+b & c=d %41 \"x\" \\ \n \xff 你", "")
	f.Add("2", "1/m/2", "image", "https://example.org/?a=b&c=%20+\"")
	f.Fuzz(func(t *testing.T, to, id, text, link string) {
		o := message.Outbound{ID: id, Page: "1", To: to, Text: text}
		if link != "" {
			o.Attachment = &message.Attachment{Type: text, URL: link}
		}
		got, err := unbatched(encodeBatch([]message.Outbound{o, o}))
		if err != nil {
			t.Fatal(err)
		}
		one := decoded(t, encode(o))
		if diff := cmp.Diff([]any{one, one}, got); diff != "" {
			t.Errorf("a batch differs from single calls (-single +batch):\n%s", diff)
		}
	})
}
