package rabbit

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what a Broker counts. The labels are closed: connection is
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
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "chatclub", Subsystem: "broker", Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "chatclub", Subsystem: "broker", Name: name, Help: help}
	}
	deliveries := prometheus.NewCounterVec(counter("deliveries_total", "Messages received from queues."), []string{"redelivered"})
	m := &metrics{
		connected:   prometheus.NewGaugeVec(gauge("connected", "1 while the connection to the broker is up."), []string{"connection"}),
		reconnects:  prometheus.NewCounterVec(counter("reconnects_total", "Connections made after the first."), []string{"connection"}),
		blocked:     prometheus.NewGauge(gauge("blocked", "1 while the broker refuses to read what is published (memory or disk alarm).")),
		published:   prometheus.NewCounter(counter("published_total", "Messages that the broker confirmed.")),
		republished: prometheus.NewCounter(counter("republished_total", "Messages published again because their confirm was lost.")),
		returned:    prometheus.NewCounter(counter("returned_total", "Messages that no queue took.")),
		refused:     prometheus.NewCounter(counter("refused_total", "Messages that their queue did not take: it is full, or has no leader.")),
		confirm: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "chatclub", Subsystem: "broker", Name: "confirm_seconds",
			Help: "Time from writing a group of messages to the confirm of its last.",
			// 0.5 ms is a fast broker's answer, 8 s is past the confirm time-out.
			Buckets:                     prometheus.ExponentialBuckets(0.0005, 2, 15),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
		}),
		deliveries: map[bool]prometheus.Counter{
			false: deliveries.WithLabelValues("false"), true: deliveries.WithLabelValues("true"),
		},
		acked: prometheus.NewCounter(counter("settled_total", "Deliveries settled.")),
		stale: prometheus.NewCounter(counter("stale_total", "Deliveries settled too late: their channel was gone.")),
	}
	for _, c := range []string{publishing, consuming} {
		m.connected.WithLabelValues(c)
		m.reconnects.WithLabelValues(c)
	}
	if reg == nil {
		return m, nil
	}
	var faults []error
	for _, c := range []prometheus.Collector{
		m.connected, m.reconnects, m.blocked, m.published, m.republished, m.returned, m.refused,
		m.confirm, deliveries, m.acked, m.stale,
	} {
		faults = append(faults, reg.Register(c))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}
