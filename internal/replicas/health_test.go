package replicas

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
)

// TestHealth: each program says by itself whether it is ready; one that does not answer says so.
func TestHealth(t *testing.T) {
	t.Parallel()
	says := func(code int, text string) Replica {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				http.NotFound(w, r)
				return
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(text))
		}))
		t.Cleanup(s.Close)
		return Replica{Name: strings.TrimPrefix(s.URL, "http://"), URL: s.URL}
	}
	gone := says(200, "ready\n")
	f := Fleet{
		Client: Client{HTTP: http.DefaultClient}, Webhook: []Replica{says(200, "ready\n")},
		Core: []Replica{says(503, "not ready: the database does not answer\n")}, Dispatchers: []Replica{{Name: "gone", URL: "http://127.0.0.1:1"}, gone},
	}
	got := f.Health(t.Context())
	for i, want := range []Health{
		{"webhook", f.Webhook[0].Name, true, ""},
		{"core", f.Core[0].Name, true, "the database does not answer"},
		{"dispatcher", "gone", false, "does not answer: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"dispatcher", gone.Name, true, ""},
	} {
		if got[i] != want {
			t.Errorf("health %d = %+v, want %+v", i, got[i], want)
		}
	}
}

// TestAskBroker: messages are counted by kind; queues that nobody consumes, that are missing,
// and those of a program with more partitions are named. What was not counted is not said to
// be 0.
func TestAskBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		top := queue.Topology{Prefix: "x", Partitions: 4}
		b, err := memory.New(top)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		seen := less{b, 2}
		h := AskBroker(t.Context(), b)
		if n, known := h.Ready("inbound", "outbound", "lanes", "retry", "dead"); n != 0 || !known || h.Error != "" || len(h.Idle)+len(h.Missing)+len(h.Beyond) != 0 {
			t.Errorf("AskBroker() = %+v of empty queues, want nothing", h)
		}
		for _, name := range []string{top.Outbound(1), top.Outbound(1), top.Outbound(3), top.Lane(0, 2), top.Dead()} {
			if err := b.Publish(t.Context(), queue.Message{Queue: name, ID: "1"}); err != nil {
				t.Fatal(err)
			}
		}
		sub, err := b.Consume(top.Lane(0, 2), queue.ConsumeOptions{Prefetch: 1})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h = AskBroker(t.Context(), b)
		out, _ := h.Ready("outbound")
		dead, _ := h.Ready("dead")
		if out != 3 || dead != 1 || len(h.Idle) != 2 || h.Idle[0] != (queue.Idle{Queue: top.Outbound(1), Ready: 2}) {
			t.Errorf("AskBroker() = %+v, want 3 outbound on two queues without a consumer, and 1 dead", h)
		}
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
		h = AskBroker(t.Context(), seen) // as a tool with PARTITIONS=2
		if len(h.Beyond) != 4 || h.Beyond[3] != (queue.Idle{Queue: top.Outbound(3), Ready: 1}) {
			t.Errorf("queues beyond PARTITIONS=2 = %+v, want two partitions more", h.Beyond)
		}
		h = AskBroker(t.Context(), more{b})
		if len(h.Missing) != 1+1+4 {
			t.Errorf("missing of PARTITIONS=5 = %v, want a partition of each kind and its lanes", h.Missing)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		h = AskBroker(ctx, slow{b})
		if n, known := h.Ready("outbound"); known || h.CountError == "" || h.Error == "" {
			t.Errorf("AskBroker() = %+v, %d outbound, of a broker that does not answer, want errors and no number", h, n)
		}
	})
}

// TestStillIdle: a queue that had no consumer at one of two looks is going from one to the next.
func TestStillIdle(t *testing.T) {
	t.Parallel()
	got := queue.StillIdle([]queue.Idle{{Queue: "a", Ready: 1}, {Queue: "b", Ready: 1}}, []queue.Idle{{Queue: "b", Ready: 2}, {Queue: "c", Ready: 1}})
	if len(got) != 1 || got[0] != (queue.Idle{Queue: "b", Ready: 2}) {
		t.Errorf("StillIdle() = %v, want b alone, as it is now", got)
	}
}

// less sees a broker with fewer partitions than it has, more with one more.
type less struct {
	*memory.Broker
	partitions int
}

func (b less) Topology() queue.Topology { return queue.Topology{Prefix: "x", Partitions: b.partitions} }

type more struct{ *memory.Broker }

func (more) Topology() queue.Topology { return queue.Topology{Prefix: "x", Partitions: 5} }

// slow answers nothing before ctx ends.
type slow struct{ *memory.Broker }

func (slow) Inspect(ctx context.Context, _ string) (queue.Info, error) {
	<-ctx.Done()
	return queue.Info{}, ctx.Err()
}

// TestTrouble: RabbitMQ comes before the programs, which say the same of it, and those that do
// not answer before those that are not ready.
func TestTrouble(t *testing.T) {
	t.Parallel()
	blocked := &BrokerHealth{Error: "publish connection: broker blocked: low on disk"}
	for _, row := range []struct {
		name     string
		programs []Health
		broker   *BrokerHealth
		want     string
	}{
		{"all is well", []Health{{"core", "c", true, ""}}, &BrokerHealth{}, ""},
		{"nothing was asked", nil, nil, ""},
		{
			"the broker is full",
			[]Health{{"core", "c", true, "publish connection: broker blocked: low on disk"}, {"dispatcher", "d", false, "does not answer: refused"}},
			blocked,
			"RabbitMQ takes no messages: publish connection: broker blocked: low on disk. Dispatcher does not answer.",
		},
		{"one of one", []Health{{"core", "c", true, "the database is away"}}, nil, "Core is not ready: the database is away."},
		{
			"one of two",
			[]Health{{"core", "a", true, "starting"}, {"core", "b", false, "does not answer: refused"}, {"core", "c", true, ""}},
			nil,
			"2 of 3 cores: b does not answer.",
		},
		{"all of two", []Health{{"webhook", "a", true, "x"}, {"webhook", "b", true, "y"}}, nil, "None of 2 webhooks is ready: a is not ready: x."},
		{
			"queues", nil, &BrokerHealth{Census: queue.Census{Idle: []queue.Idle{{Queue: "x.outbound.66", Ready: 12}, {Queue: "x.lane.66.1", Ready: 1}}, Beyond: []queue.Idle{{Queue: "x.inbound.64"}}}},
			"12 messages on x.outbound.66 have no consumer, nor has 1 more queue. There is x.inbound.64: a program has more PARTITIONS.",
		},
	} {
		if got := Trouble(row.programs, row.broker); got != row.want {
			t.Errorf("%s: Trouble() = %q\nwant %q", row.name, got, row.want)
		}
	}
}
