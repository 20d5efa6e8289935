package trial

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/load"
)

// rig is a trial on a system of its own whose broker is a publisher of ours.
type rig struct {
	fleet.Fleet
	publish func(ctx context.Context, msgs []queue.Message) error
}

type rigBroker struct {
	queue.Broker
	rig *rig
}

func (b rigBroker) Publish(ctx context.Context, msgs ...queue.Message) error {
	return b.rig.publish(ctx, msgs)
}

func (r *rig) Broker() queue.Broker { return rigBroker{r.Fleet.Broker(), r} }

// open returns the trial of a plan, about to begin.
func open(t *testing.T, plan Plan, publish func(context.Context, []queue.Message) error) *trial {
	t.Helper()
	local, err := fleet.OpenLocal(t.Context(), fleet.Config{Topology: queue.Topology{Prefix: "t", Partitions: 4}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := local.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p := local.Platform()
	j, err := judge.New(p.URL, p.Transport)
	if err != nil {
		t.Fatal(err)
	}
	return &trial{
		Config: Config{Plan: plan, Via: ViaOutbound, Seed: 7, Log: slog.New(slog.DiscardHandler)}, id: "run",
		fleet: &rig{local, publish}, judge: j, tally: load.NewTally(), controls: &Controls{judge: j, begin: time.Now()},
	}
}

// poisson is a demand at random on pages of different size.
func poisson() Plan {
	return Plan{Length: 10 * time.Second, Streams: []Stream{
		{Group: Hot, Pages: []Page{{"1", 3}, {"2", 1}}, Poisson: true, Segments: []load.Segment{{Rate: 100, For: 10 * time.Second}}},
		{Group: Cold, Pages: Pages(11, 20), Poisson: true, Segments: []load.Segment{{Rate: 50, For: 10 * time.Second}}},
	}}
}

// However late the generator, and so however large its batches, the same seed
// is the same messages to the same people at the same times.
func TestSameSeedIsTheSameDemand(t *testing.T) {
	t.Parallel()
	demand := func(late time.Duration) (list []string) {
		synctest.Test(t, func(t *testing.T) {
			tr := open(t, poisson(), func(_ context.Context, msgs []queue.Message) error {
				for _, m := range msgs {
					out, err := message.DecodeOutbound(m.Body)
					if err != nil {
						return err
					}
					list = append(list, time.UnixMilli(out.Time).Sub(time.Now().Truncate(time.Hour)).String()+" "+out.ID)
				}
				time.Sleep(late)
				return nil
			})
			streams, err := tr.streams()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range streams { // one after the other, so that the order is theirs
				if err := load.Run(t.Context(), tr.controls.begin, tr.tally, s); err != nil {
					t.Fatal(err)
				}
			}
		})
		return list
	}
	want := demand(0)
	if len(want) < 1200 {
		t.Fatalf("%d messages, want about 1500", len(want))
	}
	for _, late := range []time.Duration{30 * time.Millisecond, 700 * time.Millisecond} {
		if got := demand(late); !slices.Equal(got, want) {
			t.Errorf("with batches that take %v there are %d messages, want the same %d as without", late, len(got), len(want))
		}
	}
}

// Every announced message is published, or taken back. A user who stops the
// generator must not make the system look as if it had lost something.
func TestStoppedGeneratorLeavesNothingAwaited(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		fail error
	}{{"published", nil}, {"not published", errors.New("broken")}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			published := 0
			tr := open(t, poisson(), func(ctx context.Context, msgs []queue.Message) error {
				if err := errors.Join(ctx.Err(), tc.fail); err != nil {
					return err
				}
				published += len(msgs)
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			o := &outbound{
				sampler: newSampler(tr.Plan.Streams[0], 0, tr.id, 1, 0), judge: tr.judge, broker: tr.fleet.Broker(), queue: tr.queue, encode: message.Outbound.Encode,
			}
			if err := o.do(ctx, make([]time.Time, 5)); !errors.Is(err, tc.fail) {
				t.Errorf("do() = %v, want %v", err, tc.fail)
			}
			c, err := tr.judge.Totals(t.Context())
			if err != nil || int(c.Pending) != published || tc.fail == nil && published != 5 {
				t.Errorf("awaited %d, published %d (%v), want as many as published", c.Pending, published, err)
			}
		})
	}
}

// An event is announced whole, and no longer tried when the run was stopped.
func TestStoppedPosterLeavesNothingAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := open(t, poisson(), nil)
		w := newWebhook("http://webhook", "secret", tr.id, tr.judge)
		w.client.Transport = unreachable{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ev := event{page: "1", from: "9", due: time.Now(), to: []string{"8", "7"}, text: "hello"}
		mid, err := w.announce(ctx, ev)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w.deliver(ctx, mid, ev)
		if took := time.Since(began); took != 0 || w.undelivered.Load() != 1 {
			t.Errorf("given up after %v, %d undelivered, want at once and 1", took, w.undelivered.Load())
		}
		c, err := tr.judge.Totals(t.Context())
		if err != nil || c.Pending != 0 || c.Excused != 2 {
			t.Errorf("awaited %d, excused %d (%v), want 0 and 2", c.Pending, c.Excused, err)
		}
	})
}

// unreachable never answers.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("unreachable")
}
