package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"chatclub/internal/message"
)

type metrics struct {
	requests    [results]prometheus.Counter
	events      map[message.Kind]prometheus.Counter
	skipped     map[Skip]prometheus.Counter
	undecodable prometheus.Counter
	publish     prometheus.Histogram
}

// newMetrics registers every series, so that each exists from the start. reg may
// be nil.
func newMetrics(reg prometheus.Registerer, readers *readers, slots <-chan struct{}) *metrics {
	auto := promauto.With(reg)
	requests := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "chatclub_webhook_requests_total",
		Help: "Requests answered, by result.",
	}, []string{"result"})
	events := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "chatclub_webhook_events_total",
		Help: "Events that the broker confirmed on the inbound partitions, by kind.",
	}, []string{"kind"})
	skipped := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "chatclub_webhook_skipped_total",
		Help: "Events and attachments that make no message for core, by kind.",
	}, []string{"kind"})
	m := &metrics{
		events: make(map[message.Kind]prometheus.Counter), skipped: make(map[Skip]prometheus.Counter),
		undecodable: auto.NewCounter(prometheus.CounterOpts{
			Name: "chatclub_webhook_undecodable_total",
			Help: "Bodies, entries and events that could not be decoded and were kept on the dead-letter queue.",
		}),
		publish: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "chatclub_webhook_publish_duration_seconds",
			Help: "Time until the broker confirmed a request's events, or publishing failed.",
			// A confirm takes 1 to 10 ms; the time-out is below 5 s.
			Buckets:                     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
		}),
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "chatclub_webhook_in_flight",
		Help: "POST requests that Messenger signed and that are being handled.",
	}, func() float64 { return float64(len(slots)) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "chatclub_webhook_readers",
		Help: "Bodies being read, whose senders are not verified yet.",
	}, func() float64 { return float64(readers.count()) })
	for r, o := range outcomes {
		m.requests[r] = requests.WithLabelValues(o.label)
	}
	for _, k := range []message.Kind{message.KindMessage, message.KindPostback, message.KindPolicy, message.KindDeletion, message.KindOther} {
		m.events[k] = events.WithLabelValues(string(k))
	}
	for _, s := range skips {
		m.skipped[s] = skipped.WithLabelValues(string(s))
	}
	return m
}

// count counts the parts of an accepted request.
func (m *metrics) count(p Parts) {
	for _, e := range p.Events {
		m.events[e.Kind].Inc()
	}
	for s, n := range p.Skipped {
		m.skipped[s].Add(float64(n))
	}
	m.undecodable.Add(float64(len(p.Bad)))
}
