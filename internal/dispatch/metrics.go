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
	overflowed prometheus.Counter
	stale      prometheus.Counter
	givenUp    *prometheus.CounterVec
	retries    *prometheus.CounterVec
	dead       *prometheus.CounterVec
	inFlight   prometheus.Gauge
	limit      prometheus.Gauge
	lanes      prometheus.Gauge
	held       prometheus.Gauge
	waiting    prometheus.Gauge
	age        prometheus.Histogram
	paceError  prometheus.Histogram
	probes     map[string]prometheus.Counter
	queueAge   map[string]prometheus.Observer
}

// The kinds of probe, as a label.
const (
	probePage      = "page"    // an owner's one call after refusals in a row
	probeAPI       = "api"     // the one call while the breaker is open
	probeSuspended = "stopped" // the one message of a suspended page
)

// The queues that messages are taken from, as a label.
const (
	fromOutbound = "outbound"
	fromBulk     = "bulk"
	fromLane     = "lane"
)

// ages are the buckets of a message's age: 10 ms to 5.5 min.
func ages() []float64 { return prometheus.ExponentialBuckets(0.01, 2, 16) }

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
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help, Buckets: buckets})
		reg.MustRegister(h)
		return h
	}
	gaugeOf("pages_in_excess", "Pages whose messages go to their lane.", func() int { return counts().Excess })
	gaugeOf("pages_owned", "Pages whose lane is delivered here and that have a learned pace.", func() int { return counts().Owned })
	gaugeOf("pages_stopped", "Suspended pages: nothing is sent to them, because their token or permission is lost or they are blocked for a time.", stopped)
	m := &metrics{
		sent:       counter("sent_total", "Messages that the Send API took."),
		refused:    counter("refused_total", "Calls refused by a page's limit (error 613 and its kin)."),
		refusedApp: counter("refused_app_total", "Calls refused by the limit of the whole app."),
		givenBack:  counter("given_back_total", "Messages moved to the tail of their own queue: broadcasts to pages that are in excess or have more to send."),
		overflowed: counter("overflowed_total", "Messages moved to the lane of their page because it was in excess."),
		stale:      counter("stale_total", "Deliveries whose connection or lane was lost before they were settled; their messages are delivered again."),
		givenUp:    vec("lanes_given_up_total", "Lanes given up to another replica, by reason: stuck or overloaded.", "reason"),
		retries:    vec("retries_total", "Failed calls after which the message is tried again, by outcome.", "outcome"),
		dead:       vec("dead_total", "Messages moved to the dead-letter queue, by reason.", "reason"),
		inFlight:   gauge("in_flight_calls", "Send API calls in flight."),
		held:       gauge("held_messages", "Messages of outbound in hand: waiting for a call or in one."),
		limit:      gauge("in_flight_limit", "Calls in flight at most, as adapted to the API's latency."),
		lanes:      gauge("lanes_owned", "Lanes of which messages are in hand."),
		waiting:    gauge("waiting_messages", "Messages of outbound in hand and in no call: they wait for their page's share, another message to their recipient, a retry or a free call."),
		age:        histogram("message_age_seconds", "Time from the event at Messenger to the accepted send of its copy.", ages()),
		paceError: histogram("pace_error_seconds",
			"How late a lane's owner made a call that had to wait, against the moment at which the page's pace allowed it.",
			prometheus.ExponentialBuckets(0.0001, 4, 9)), // 0.1 ms to 6.6 s
		probes:   make(map[string]prometheus.Counter),
		queueAge: make(map[string]prometheus.Observer),
	}
	probes := vec("probes_total", "Calls made to find out whether more is possible: of an owned page after refusals in a row, of the API while it takes no calls, of a suspended page (stopped).", "kind")
	for _, kind := range []string{probePage, probeAPI, probeSuspended} {
		m.probes[kind] = probes.WithLabelValues(kind)
	}
	queueAge := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: ns, Subsystem: sub, Name: "queue_age_seconds", Buckets: ages(),
		Help: "Time from the event at Messenger until its copy was taken from a queue.",
	}, []string{"queue"})
	reg.MustRegister(queueAge)
	for _, name := range []string{fromOutbound, fromBulk, fromLane} {
		m.queueAge[name] = queueAge.WithLabelValues(name)
	}
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
