package judge_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/loadtest/judge"
)

type rig struct {
	t   *testing.T
	api *fakeapi.API
	*judge.Judge
}

func open(t *testing.T) *rig {
	t.Helper()
	api, err := fakeapi.New(fakeapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := judge.New("http://fakeapi", api.Transport())
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, api, j}
}

// send makes one Send API call.
func (r *rig) send(id, to string) {
	r.t.Helper()
	body := `{"recipient":{"id":"` + to + `"},"messaging_type":"UPDATE","message":{"text":"hi","metadata":"` + id + `"}}`
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://fakeapi/v23.0/1/messages", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer token-1")
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.api.Transport().RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		r.t.Fatalf("send = %d %s, want 200", resp.StatusCode, text)
	}
}

// Messages that are announced in an order must arrive in it: at once where there is no
// key, and from the answer on where there is one.
func TestOrderIsJudged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		key      string
		answered bool
		want     int64
	}{{"without key", "", false, 1}, {"answered", "k", true, 1}, {"not answered", "k", false, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, ctx := open(t), t.Context()
			first := judge.Event{Page: "1", Group: "g", Due: time.Now(), Key: tc.key, IDs: []judge.ID{{ID: "1/a/9", To: "9"}}}
			second := judge.Event{Page: "1", Group: "g", Due: time.Now(), IDs: []judge.ID{{ID: "1/b/9", To: "9"}}}
			if err := r.Announce(ctx, first); err != nil {
				t.Fatal(err)
			}
			if tc.answered {
				if err := r.Answered(ctx, tc.key); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Announce(ctx, second); err != nil {
				t.Fatal(err)
			}
			r.send("1/b/9", "9")
			r.send("1/a/9", "9")
			c, err := r.Totals(ctx)
			if err != nil || c.Inversions != tc.want || c.Accepted != 2 || c.Lost != 0 {
				t.Errorf("Totals() = %+v, %v, want 2 accepted, 0 lost, %d inversions", c, err, tc.want)
			}
			groups, err := r.Groups(ctx)
			if err != nil || groups["g"].Accepted != 2 || groups["g"].Completed != 2 || len(groups["g"].Waiting) != 0 {
				t.Errorf("Groups() = %+v, %v, want g with 2 copies, 2 whole", groups, err)
			}
		})
	}
}

// The fake's own words are in the error.
func TestFaultsAreTold(t *testing.T) {
	t.Parallel()
	r, ctx := open(t), t.Context()
	if err := r.Announce(ctx, judge.Event{Page: "1"}); err == nil || !strings.Contains(err.Error(), "events[0]: page and ids must be set") {
		t.Errorf("Announce = %v, want the fake's error", err)
	}
	if _, err := judge.New("fakeapi:8090", nil); err == nil || !strings.Contains(err.Error(), "ledger") {
		t.Errorf("New with a bad address = %v, want an error that names the ledger", err)
	}
}

func TestLatencies(t *testing.T) {
	t.Parallel()
	l := judge.Merge([]ledger.Bin{{Micros: 1000, Count: 90}}, []ledger.Bin{{Micros: 500, Count: 9}, {Micros: 3000, Count: 1}})
	if l.Within(time.Millisecond) != 99 || l.Quantile(.05) != 500*time.Microsecond || l.Quantile(.99) != time.Millisecond || l.Quantile(1) != 3*time.Millisecond || judge.Merge().Quantile(.5) != 0 {
		t.Errorf("latencies = %v, %d within 1 ms, p99 %v", l, l.Within(time.Millisecond), l.Quantile(.99))
	}
}
