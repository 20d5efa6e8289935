package sender

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/message"
	"chatclub/internal/metric"
)

// durationBuckets double from 5 ms, below the fastest answer over a network, to
// 10.24 s. The platform's own captures lie between 0.64 s and 1.9 s.
func durationBuckets() []float64 { return prometheus.ExponentialBuckets(0.005, 2, 12) }

// metrics holds one collector per outcome, looked up once: the label lookup
// would be repeated with every call.
type metrics struct {
	calls      map[Outcome]prometheus.Counter
	requests   prometheus.Counter
	durations  map[Outcome]prometheus.Observer
	inFlight   prometheus.Gauge
	unreadable prometheus.Counter
}

// newMetrics registers the package's metrics with reg; with nil they count
// without being shown.
func newMetrics(reg prometheus.Registerer) *metrics {
	set := metric.Set{Subsystem: "sender", Registerer: reg}
	m := &metrics{
		calls: metric.Counters(set.CounterVec("calls_total", "Messages given to the Send API client, by outcome. No call was made for canceled ones, nor for those of a page without a token.", "outcome"),
			Outcomes()...),
		durations:  make(map[Outcome]prometheus.Observer),
		requests:   set.Counter("requests_total", "Requests to the Send API."),
		inFlight:   set.Gauge("in_flight", "Send API calls without an answer yet."),
		unreadable: set.Counter("unreadable_receipts_total", "Messages that the Send API accepted without a readable message id."),
	}
	durations := set.HistogramVec("call_duration_seconds", "Time from the start of a Send API call to the end of its answer.", "class", durationBuckets())
	for _, o := range Outcomes() {
		m.durations[o] = durations.WithLabelValues(class(o))
	}
	return m
}

// class is the label of a call's duration: a throttle is answered at once and
// says nothing about how fast the platform sends.
func class(o Outcome) string {
	switch o {
	case Sent:
		return "ok"
	case PageThrottled, AppThrottled, RecipientThrottled:
		return "throttled"
	case Transient, Ambiguous, RecipientGone, WindowClosed, NotOurs, BadMessage,
		PageStopped, NotAllowed, PageStoppedForATime, NoToken, Canceled:
	}
	return "failed"
}

// result counts one message by its outcome. The answer to a sender action has no id.
func (m *metrics) result(o message.Outbound, r Result) {
	m.calls[r.Outcome].Inc()
	if r.Outcome == Sent && r.MessageID == "" && o.SenderAction == "" {
		m.unreadable.Inc()
	}
}

// duration records a call that was made.
func (m *metrics) duration(o Outcome, d time.Duration) { m.durations[o].Observe(d.Seconds()) }
