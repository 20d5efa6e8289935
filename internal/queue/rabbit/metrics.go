package rabbit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics is the set of a Broker's metrics. The labels are closed: connection is
// publish or consume, redelivered is true or false. What is counted with each
// message is looked up once.
type metrics struct {
	connected   *prometheus.GaugeVec
	reconnects  *prometheus.CounterVec
	blocked     prometheus.Gauge
	published   prometheus.Counter
	republished prometheus.Counter
	returned    prometheus.Counter
	refused     prometheus.Counter
	confirm     prometheus.Histogram
	deliveries  map[bool]prometheus.Counter // by redelivered
	acked       prometheus.Counter
	stale       prometheus.Counter
}

// newMetrics makes the metrics and registers them with reg unless it is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	const ns, sub = "chatclub", "broker"
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
	}
	deliveries := auto.NewCounterVec(prometheus.CounterOpts{
		Namespace: ns, Subsystem: sub, Name: "deliveries_total", Help: "Messages received from queues.",
	}, []string{"redelivered"})
	m := &metrics{
		connected: auto.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "connected", Help: "1 while the connection to the broker is up.",
		}, []string{"connection"}),
		reconnects: auto.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "reconnects_total", Help: "Connections made after the first.",
		}, []string{"connection"}),
		blocked: auto.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "blocked", Help: "1 while the broker refuses to read what is published (memory or disk alarm).",
		}),
		published:   counter("published_total", "Messages that the broker confirmed."),
		republished: counter("republished_total", "Messages published again because their confirm was lost."),
		returned:    counter("returned_total", "Messages that no queue took."),
		refused:     counter("refused_total", "Messages that their queue did not take: it is full, or has no leader."),
		confirm: auto.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "confirm_seconds",
			Help: "Time from writing a group of messages to the confirm of its last.",
			// 0.5 ms is a fast broker's answer, 8 s is past the confirm time-out.
			Buckets:                     prometheus.ExponentialBuckets(0.0005, 2, 15),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
		}),
		deliveries: map[bool]prometheus.Counter{
			false: deliveries.WithLabelValues("false"), true: deliveries.WithLabelValues("true"),
		},
		acked: counter("settled_total", "Deliveries settled."),
		stale: counter("stale_total", "Deliveries settled too late: their channel was gone."),
	}
	for _, c := range []string{publishing, consuming} {
		m.connected.WithLabelValues(c)
		m.reconnects.WithLabelValues(c)
	}
	return m
}
