package broadcast

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/tracing/tracingtest"
)

// Each publish is a trace of its own, in which its messages go on.
func TestEachRoundIsATrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var collector tracingtest.Collector
		r := newRig(t)
		tracer := collector.Start(t, r.broker.Topology())
		r.scheduler.cfg.Tracer = tracer
		r.members(t, "p", 30)
		stop := r.start(t)
		r.add(t, to("p", "b", 10))
		time.Sleep(10 * time.Second)
		stop()
		if err := tracer.Close(); err != nil {
			t.Fatal(err)
		}
		spans, err := collector.Spans()
		if err != nil {
			t.Fatal(err)
		}
		roots := make(map[string]bool)
		for _, s := range spans {
			if s.Kind != "producer" || s.Parent != "" || s.Error != "" {
				t.Errorf("span = %+v, want a producer's without a parent or error", s)
			}
			roots[s.Trace+"-"+s.ID] = true
		}
		msgs := r.take(t)
		for _, m := range msgs {
			if _, of, _ := strings.Cut(m.Headers[message.HeaderTrace], "-"); !roots[strings.TrimSuffix(of, "-01")] {
				t.Errorf("%s has headers %v, want the span that sent it", m.ID, m.Headers)
			}
		}
		if len(msgs) != 30 || len(roots) < 2 || len(roots) > 6 {
			t.Errorf("%d messages in %d traces, want 30 in 2 to 6", len(msgs), len(roots))
		}
	})
}
