package broadcast

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

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
	auto := promauto.With(reg)
	m := &metrics{
		ended: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "chatclub_core_broadcasts_total",
			Help: "Broadcasts that ended, by state: all of it queued, stopped by an operator, or past its deadline.",
		}, []string{"state"}),
		messages: auto.NewCounter(prometheus.CounterOpts{
			Name: "chatclub_core_broadcast_messages_total",
			Help: "Messages of broadcasts confirmed on their page's partition.",
		}),
		held: auto.NewGauge(prometheus.GaugeOpts{
			Name: "chatclub_core_broadcasts_held",
			Help: "Broadcasts that this core works on.",
		}),
		full: auto.NewGauge(prometheus.GaugeOpts{
			Name: "chatclub_core_broadcast_partitions_full",
			Help: "Partitions that are too long for this core's broadcasts, which wait.",
		}),
		// Package core registers the other steps of this metric. Prometheus
		// demands the same Help and labels.
		failures: auto.NewCounter(prometheus.CounterOpts{
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
