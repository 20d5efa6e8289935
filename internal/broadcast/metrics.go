package broadcast

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"chatclub/internal/metric"
	"chatclub/internal/rooms"
)

// metrics are named after the program core, of which a Scheduler is a part.
type metrics struct {
	ended    *prometheus.CounterVec
	messages prometheus.Counter
	held     prometheus.Gauge
	full     prometheus.Gauge
	failures prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	set := metric.Set{Subsystem: "core", Registerer: reg}
	m := &metrics{
		ended:    set.CounterVec("broadcasts_total", "Broadcasts that ended, by state: all of it queued, stopped by an operator, or past its deadline.", "state"),
		messages: set.Counter("broadcast_messages_total", "Messages of broadcasts confirmed on their page's partition."),
		held:     set.Gauge("broadcasts_held", "Broadcasts that this core works on."),
		full:     set.Gauge("broadcast_partitions_full", "Partitions that are too long for this core's broadcasts, which wait."),
		// Package core registers the other steps of this metric. Prometheus
		// demands the same Help and labels.
		failures: promauto.With(reg).NewCounter(prometheus.CounterOpts{
			Name:        "chatclub_core_failures_total",
			Help:        "Failed steps, each tried again, by step.",
			ConstLabels: prometheus.Labels{"step": "broadcast"},
		}),
	}
	for _, state := range []rooms.BroadcastState{rooms.BroadcastDone, rooms.BroadcastStopped, rooms.BroadcastExpired} {
		m.ended.WithLabelValues(string(state))
	}
	return m
}
