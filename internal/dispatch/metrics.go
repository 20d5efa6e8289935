package dispatch

import (
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/sender"
)

type metrics struct {
	sent       prometheus.Counter
	refused    prometheus.Counter
	refusedApp prometheus.Counter
	givenBack  prometheus.Counter
	spilled    prometheus.Counter
	stale      prometheus.Counter
	givenUp    *prometheus.CounterVec
	retries    *prometheus.CounterVec
	dead       *prometheus.CounterVec
	inFlight   prometheus.Gauge
	limit      prometheus.Gauge
	lanes      prometheus.Gauge
	held       prometheus.Gauge
	age        prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, counts func() excess.Counts, stopped func() int) *metrics {
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
	gaugeOf("pages_in_excess", "Pages whose messages go to their lane.", func() int { return counts().Excess })
	gaugeOf("pages_owned", "Pages whose lane is delivered here and that have a learned pace.", func() int { return counts().Owned })
	gaugeOf("pages_stopped", "Pages that nothing is sent to: their token or permission is lost, or they are blocked for a time.", stopped)
	m := &metrics{
		sent:       counter("sent_total", "Messages that the Send API took."),
		refused:    counter("refused_total", "Calls refused by a page's limit (error 613 and its kin)."),
		refusedApp: counter("refused_app_total", "Calls refused by the limit of the whole app."),
		givenBack:  counter("given_back_total", "Messages moved to the tail of their own queue; chatclub's gate never asks for it."),
		spilled:    counter("spilled_total", "Messages moved to the lane of their page because it was in excess."),
		stale:      counter("stale_total", "Deliveries whose connection or lane was lost before they were settled; their messages are delivered again."),
		givenUp:    vec("lanes_given_up_total", "Lanes given up to another replica, by reason: stuck or overloaded.", "reason"),
		retries:    vec("retries_total", "Failed calls after which the message is tried again, by outcome.", "outcome"),
		dead:       vec("dead_total", "Messages moved to the dead-letter queue, by reason.", "reason"),
		inFlight:   gauge("in_flight_calls", "Send API calls in flight."),
		held:       gauge("held_messages", "Messages of outbound in hand: waiting for a call or in one."),
		limit:      gauge("in_flight_limit", "Calls in flight at most, as adapted to the API's latency."),
		lanes:      gauge("lanes_owned", "Lanes of which messages are in hand."),
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
	for _, r := range []string{"stuck", "overloaded"} {
		m.givenUp.WithLabelValues(r)
	}
	return m
}
