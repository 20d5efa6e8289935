package dispatch

import (
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

type metrics struct {
	sent       prometheus.Counter
	refused    prometheus.Counter
	refusedApp prometheus.Counter
	givenBack  prometheus.Counter
	staleAcks  prometheus.Counter
	retries    *prometheus.CounterVec
	dead       *prometheus.CounterVec
	inFlight   prometheus.Gauge
	held       prometheus.Gauge
	age        prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, inExcess, stopped func() int) *metrics {
	const ns, sub = "chatclub", "dispatch"
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, []string{label})
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
		reg.MustRegister(g)
		return g
	}
	gaugeOf := func(name, help string, f func() int) {
		reg.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help},
			func() float64 { return float64(f()) }))
	}
	gaugeOf("pages_in_excess", "Pages whose messages are given back until their refused ones are through.", inExcess)
	gaugeOf("pages_stopped", "Pages that nothing is sent to: their token or permission is lost, or they are blocked for a time.", stopped)
	m := &metrics{
		sent:       counter("sent_total", "Messages that the Send API took."),
		refused:    counter("refused_total", "Calls refused by a page's limit (error 613 and its kin)."),
		refusedApp: counter("refused_app_total", "Calls refused by the limit of the whole app."),
		givenBack:  counter("given_back_total", "Messages moved to the tail of their queue because their page was in excess."),
		staleAcks:  counter("stale_acks_total", "Deliveries whose connection was lost before they could be acknowledged; their messages are delivered again."),
		retries:    vec("retries_total", "Failed calls after which the message is tried again, by outcome.", "outcome"),
		dead:       vec("dead_total", "Messages moved to the dead-letter queue, by reason.", "reason"),
		inFlight:   gauge("in_flight_calls", "Send API calls in flight."),
		held:       gauge("held_messages", "Messages on their way: waiting for a call, in a call, or between two."),
		age: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "message_age_seconds",
			Help:    "Time from the event at Messenger to the accepted send of its copy.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 16), // 10 ms to 5.5 min
		}),
	}
	reg.MustRegister(m.age)
	for _, r := range message.Reasons() {
		m.dead.WithLabelValues(string(r))
	}
	for _, o := range []sender.Outcome{sender.Transient, sender.RecipientThrottled} {
		m.retries.WithLabelValues(o.String())
	}
	return m
}
