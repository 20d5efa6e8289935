package webhook

import (
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/message"
	"chatclub/internal/metric"
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
	set := metric.Set{Subsystem: "webhook", Registerer: reg}
	m := &metrics{
		events: metric.Counters(set.CounterVec("events_total", "Events that the broker confirmed on the inbound partitions, by kind.", "kind"),
			message.KindMessage, message.KindPostback, message.KindPolicy, message.KindDeletion, message.KindOther),
		skipped:     metric.Counters(set.CounterVec("skipped_total", "Events and attachments that make no message for core, by kind.", "kind"), skips...),
		undecodable: set.Counter("undecodable_total", "Bodies, entries and events that could not be decoded and were kept on the dead-letter queue."),
		publish: set.Histogram("publish_duration_seconds", "Time until the broker confirmed a request's events, or publishing failed.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}), // a confirm takes 1 to 10 ms; the time-out is below 5 s
	}
	set.GaugeFunc("in_flight", "POST requests that Messenger signed and that are being handled.", func() float64 { return float64(len(slots)) })
	set.GaugeFunc("readers", "Bodies being read, whose senders are not verified yet.", func() float64 { return float64(readers.count()) })
	requests := set.CounterVec("requests_total", "Requests answered, by result.", "result")
	for r, o := range outcomes {
		m.requests[r] = requests.WithLabelValues(o.label)
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
