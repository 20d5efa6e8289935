package rabbit

import (
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/metric"
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
	set := metric.Set{Subsystem: "broker", Registerer: reg}
	m := &metrics{
		connected:   set.GaugeVec("connected", "1 while the connection to the broker is up.", "connection"),
		reconnects:  set.CounterVec("reconnects_total", "Connections made after the first.", "connection"),
		blocked:     set.Gauge("blocked", "1 while the broker refuses to read what is published (memory or disk alarm)."),
		published:   set.Counter("published_total", "Messages that the broker confirmed."),
		republished: set.Counter("republished_total", "Messages published again because their confirm was lost."),
		returned:    set.Counter("returned_total", "Messages that no queue took."),
		refused:     set.Counter("refused_total", "Messages that their queue did not take: it is full, or has no leader."),
		confirm: set.Histogram("confirm_seconds", "Time from writing a group of messages to the confirm of its last.",
			prometheus.ExponentialBuckets(0.0005, 2, 15)), // 0.5 ms is a fast broker's answer, 8 s is past the confirm time-out
		deliveries: metric.Counters(set.CounterVec("deliveries_total", "Messages received from queues.", "redelivered"), false, true),
		acked:      set.Counter("settled_total", "Deliveries settled."),
		stale:      set.Counter("stale_total", "Deliveries settled too late: their channel was gone."),
	}
	for _, c := range []string{publishing, consuming} {
		m.connected.WithLabelValues(c)
		m.reconnects.WithLabelValues(c)
	}
	return m
}
