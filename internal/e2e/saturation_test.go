package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

const (
	// quota is the platform's limit: calls per second of one page.
	quota = 300
	// settling is how long the dispatchers have from the first message until
	// the page's second-by-second use of its quota is judged.
	settling = 5 * time.Second
	// saturators is the number of dispatchers, and callsEach bounds what a
	// killed one may double: four times what a page at its quota has in flight
	// at a mean latency of 50 ms.
	saturators, callsEach = 4, 64
)

// saturation is how long a page is asked for three times its quota, and what
// is required then. The demand leaves twice its length of work behind, so that
// the page is saturated for three times as long.
type saturation struct {
	demand    time.Duration
	killAfter time.Duration // from the first message; until then the quota is judged
	used      float64       // share of the quota that is used at least
	refused   float64       // refused calls per accepted one at most
	silence   time.Duration // nothing sent after a kill at most
}

// saturations: `make flow-rabbit` sets FLOW_RABBIT to judge a minute of real
// time by the project's bounds, on a machine that does nothing else. Every run
// of the tests does the same for seconds, beside other tests; its bounds only
// tell a dispatcher that uses more than its own quarter from one that does not.
func saturations() saturation {
	if os.Getenv("FLOW_RABBIT") != "" {
		return saturation{demand: time.Minute, killAfter: time.Minute, used: 0.97, refused: 0.005, silence: 6 * time.Second}
	}
	return saturation{demand: 6 * time.Second, killAfter: 12 * time.Second, used: 0.5, refused: 0.05, silence: 20 * time.Second}
}

// One page is asked for three times its quota through four dispatchers; then
// the one that sends for all is killed.
func TestSaturatedPageOnRabbitMQ(t *testing.T) {
	t.Parallel()
	want := saturations()
	d := deployDispatchers(t, saturators)
	page := d.onlyPage(t)

	began := time.Now()
	published := make(chan int)
	go func() { published <- d.demand(t, page, 3*quota, want.demand) }()
	time.Sleep(time.Until(began.Add(want.killAfter))) // real time is what is measured
	calm := d.balance(t)
	calm.judge(t, began, want)

	owner, calls := d.owner(t, page)
	owner.kill()
	silence := d.longestSilence(t, 10*time.Second)
	t.Logf("owner killed with %d calls in flight; longest silence after it %v", calls, silence.Round(time.Millisecond))
	if silence > want.silence {
		t.Errorf("nothing was sent for %v after the lane's owner was killed, want at most %v", silence, want.silence)
	}

	n := int64(<-published)
	eventually(t, "every message has arrived", func() error {
		got, err := d.totals()
		if err == nil && (got.Expected < n || got.Pending > 0) {
			err = fmt.Errorf("%d messages published, ledger: %+v", n, got)
		}
		return err
	})
	end := d.balance(t)
	t.Logf("at the end: %d published, accepted %d, lost %d, duplicated %d", n, end.Totals.Accepted, end.Totals.Lost, end.Totals.Duplicated)
	checkComplete(t, end.Totals, callsEach)
}

// deployDispatchers starts a platform with one page and no users, and n
// dispatchers that are ready.
func deployDispatchers(t *testing.T, n int) *deployment {
	t.Helper()
	d := &deployment{
		plan:   plan{amqpURL: rabbittest.URL(t), dispatcher: map[string]string{"MAX_IN_FLIGHT": strconv.Itoa(callsEach)}},
		prefix: rabbittest.Prefix(t), pagesFile: filepath.Join(t.TempDir(), "pages.json"), fakeAddr: freeAddr(t),
	}
	d.graph = "http://" + d.fakeAddr + "/v23.0"
	d.fake = start(t, "fakeapi", map[string]string{
		"HTTP_ADDR": d.fakeAddr, "PAGES": "1", "LIMIT_TEXT": strconv.Itoa(quota),
		"PAGES_FILE_OUT": d.pagesFile, "LATENCY": "lognormal:40ms,150ms",
	})
	for range n {
		d.startDispatcher(t)
	}
	for _, p := range d.dispatchers {
		p.ready(t)
	}
	return d
}

// onlyPage is the id of the platform's page.
func (d *deployment) onlyPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(d.pagesFile)
	if err != nil {
		t.Fatal(err)
	}
	var tokens map[string]string
	if err := json.Unmarshal(b, &tokens); err != nil || len(tokens) != 1 {
		t.Fatalf("pages file %s = %s, %v, want one page", d.pagesFile, b, err)
	}
	for page := range tokens {
		return page
	}
	return ""
}

// demand announces and publishes rate messages a second on `outbound`, to two
// thousand people, and returns how many. It runs in a goroutine of its own.
func (d *deployment) demand(t *testing.T, page string, rate int, long time.Duration) (n int) {
	b, err := rabbit.Open(rabbit.Config{
		URLs: []string{d.amqpURL}, Topology: queue.Topology{Prefix: d.prefix, Lanes: 2}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Error(err)
		return 0
	}
	defer b.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for elapsed := time.Duration(0); elapsed < long; elapsed = time.Since(began) {
		var ids []string
		var msgs []queue.Message
		for ; n < int(elapsed.Seconds()*float64(rate)); n++ {
			to := strconv.Itoa(1_000_000 + rng.IntN(2000))
			out := message.Outbound{
				ID: message.CopyID(page, "m"+strconv.Itoa(n), to, 0), Page: page, To: to,
				Class: message.ClassText, Text: "x", Time: time.Now().UnixMilli(),
			}
			body, err := out.Encode()
			if err != nil {
				t.Error(err)
			}
			ids = append(ids, out.ID)
			msgs = append(msgs, queue.Message{Queue: b.Topology().Outbound(), ID: out.ID, Body: body})
		}
		if len(msgs) > 0 {
			if err := d.announce(page, ids); err != nil {
				t.Error(err)
			}
			if err := b.Publish(t.Context(), msgs...); err != nil {
				t.Error(err)
			}
		}
		<-ticker.C
	}
	return n
}

// announce tells the ledger which ids it is to wait for.
func (d *deployment) announce(page string, ids []string) error {
	body, err := json.Marshal(map[string]any{"page": page, "ids": ids})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.fakeAddr+"/ledger/expect", bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("POST /ledger/expect = %s", res.Status)
	}
	return nil
}

// book is the ledger with each second of each page.
type book struct {
	Totals totals `json:"totals"`
	Pages  []struct {
		Series []struct {
			Second int64 `json:"second"`
			Text   struct {
				Accepted int `json:"accepted"`
				Refused  int `json:"refused"`
			} `json:"text"`
		} `json:"series"`
	} `json:"pages"`
}

func (d *deployment) balance(t *testing.T) (b book) {
	t.Helper()
	code, body, err := get("http://" + d.fakeAddr + "/ledger?seconds=600")
	if err == nil {
		err = json.Unmarshal([]byte(body), &b)
	}
	if err != nil || code != http.StatusOK || len(b.Pages) != 1 {
		t.Fatalf("GET /ledger = %d, %v, with %d pages, want one", code, err, len(b.Pages))
	}
	return b
}

// judge checks the whole seconds after the settling time.
func (b book) judge(t *testing.T, began time.Time, want saturation) {
	t.Helper()
	from, to := began.Add(settling).Unix()+1, began.Add(want.killAfter).Unix()
	accepted, refused, least := 0, 0, quota
	seen := int64(0)
	for _, s := range b.Pages[0].Series {
		if s.Second >= from && s.Second < to {
			seen++
			accepted += s.Text.Accepted
			refused += s.Text.Refused
			least = min(least, s.Text.Accepted)
		}
	}
	if seen != to-from {
		least = 0
	}
	used := float64(accepted) / float64(quota*(to-from))
	share := float64(refused) / float64(max(1, accepted))
	t.Logf("%d s: quota used %.2f %% (worst second %d of %d), refused %d = %.3f %% of sends; from the start refused %d of %d = %.3f %%; duplicated %d",
		to-from, 100*used, least, quota, refused, 100*share,
		b.Totals.Refused, b.Totals.Accepted, 100*float64(b.Totals.Refused)/float64(max(1, b.Totals.Accepted)), b.Totals.Duplicated)
	if used < want.used {
		t.Errorf("quota used = %.4f, want at least %.2f", used, want.used)
	}
	if share > want.refused {
		t.Errorf("refused calls per send = %.4f, want at most %.3f", share, want.refused)
	}
	if b.Totals.Duplicated != 0 || b.Totals.Unexpected != 0 {
		t.Errorf("duplicated = %d, unexpected = %d without any fault, want 0", b.Totals.Duplicated, b.Totals.Unexpected)
	}
}

// owner is the dispatcher that sends for the page, as it says itself, and how
// many calls it has in flight.
func (d *deployment) owner(t *testing.T, page string) (owner *process, calls int) {
	t.Helper()
	eventually(t, "one dispatcher owns the page's lane", func() error {
		owners := 0
		for _, p := range d.dispatchers {
			_, body, err := get("http://" + p.admin + "/pages")
			if err != nil {
				return err
			}
			var answer struct {
				Busy []struct {
					Page     string `json:"page"`
					State    string `json:"state"`
					InFlight int    `json:"in_flight"`
				} `json:"busy"`
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				return err
			}
			for _, b := range answer.Busy {
				if b.Page == page && b.State == "owner" && b.InFlight > 0 {
					owners++
					owner, calls = p, b.InFlight
				}
			}
		}
		if owners != 1 {
			return fmt.Errorf("%d dispatchers send as its owner", owners)
		}
		return nil
	})
	return owner, calls
}

// longestSilence is the longest time without a send in the time that begins
// now and ends with the last message at the latest.
func (d *deployment) longestSilence(t *testing.T, long time.Duration) (longest time.Duration) {
	t.Helper()
	began := time.Now()
	last, accepted := began, int64(-1)
	for time.Since(began) < long {
		got, err := d.totals()
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(last))
		if got.Pending == 0 {
			break
		}
		if got.Accepted != accepted {
			last, accepted = time.Now(), got.Accepted
		}
		time.Sleep(20 * time.Millisecond)
	}
	return longest
}
