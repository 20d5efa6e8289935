package dispatch

import (
	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/message"
	"chatclub/internal/metric"
	"chatclub/internal/sender"
)

// metrics are the dispatcher's.
type metrics struct {
	messageCounters
	callCounters
	gauges
	givenUp        map[string]prometheus.Counter // partitions, by the reason
	age, paceError prometheus.Histogram
	queueAge       map[string]prometheus.Observer // by where messages are taken from
	waiting        map[Reason]prometheus.Gauge
	unexplained    prometheus.Counter
}

// messageCounters count messages. Each that is taken ends as exactly one of the others, or
// is held.
type messageCounters struct {
	taken      prometheus.Counter
	sent       prometheus.Counter
	overflowed prometheus.Counter
	delayed    prometheus.Counter
	dead       map[message.Reason]prometheus.Counter
	returned   prometheus.Counter
	stale      prometheus.Counter
	strays     prometheus.Counter
	passed     prometheus.Counter
	repeats    prometheus.Counter
}

// callCounters count calls, and what was special about them.
type callCounters struct {
	joined     prometheus.Counter // messages
	refused    prometheus.Counter
	refusedApp prometheus.Counter
	retries    map[sender.Outcome]prometheus.Counter
	probes     map[string]prometheus.Counter
}

// gauges are of now.
type gauges struct {
	held, inFlight, limit, most, turns, partitions, lanes, excess, sick, suspended, paused, failing prometheus.Gauge
}

// The kinds of probe, as a label.
const (
	probePage      = "page"      // a call of a page that a refusal closed
	probeAPI       = "api"       // the one call while the API or a page is sick
	probeSuspended = "suspended" // the one message of a suspended page
)

// Where messages are taken from, as a label.
const (
	fromPartition = "partition"
	fromLane      = "lane"
	fromAll       = "all" // pages
)

// ages are the buckets of a message's age: from 10 ms to an hour, the default of
// MESSAGE_TTL. The objective in deploy/alerts.yml needs the one of 10 s.
func ages() []float64 {
	return []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600}
}

// newMetrics registers the metrics. apiDown and silent are looked up when they are read.
func newMetrics(reg prometheus.Registerer, apiDown, silent func() bool) *metrics {
	set := metric.Set{Subsystem: "dispatch", Registerer: reg}
	state := func(name, help string, is func() bool) {
		set.GaugeFunc(name, help, func() float64 {
			if is() {
				return 1
			}
			return 0
		})
	}
	state("api_breaker_open", "1 while the Send API takes no calls, so that it is probed.", apiDown)
	state("api_silent", "1 while no call is answered, and while this dispatcher is behind all others for that.", silent)
	m := &metrics{
		messageCounters: messageCounters{
			taken:      set.Counter("taken_total", "Messages taken off partitions and lanes. Each ends as sent, overflowed, delayed, dead, returned, stale, stray, repeat or passed on."),
			sent:       set.Counter("sent_total", "Messages that the Send API took, those in joined calls included."),
			overflowed: set.Counter("overflowed_total", "Messages moved to their page's lane."),
			delayed:    set.Counter("delayed_total", "Messages moved to a retry queue, from which they come back."),
			dead:       metric.Counters(set.CounterVec("dead_total", "Messages moved to the dead-letter queue.", "reason"), message.Reasons()...),
			returned:   set.Counter("returned_total", "Messages that went back to their queue, because it was given up."),
			stale:      set.Counter("stale_total", "Messages whose connection was lost: they are delivered again."),
			strays:     set.Counter("strays_total", "Messages that came on another partition than their page's, and were sent on to that."),
			passed:     set.Counter("passed_total", "Messages of the queue for all pages that went on to their page's partition."),
			repeats:    set.Counter("repeats_total", "Messages that came again though this replica has sent them lately, and were not sent again."),
		},
		callCounters: callCounters{
			joined:     set.Counter("joined_total", "Messages that went out in another's call: texts that had to wait for the same recipient."),
			refused:    set.Counter("refused_total", "Calls that a page's limit refused."),
			refusedApp: set.Counter("refused_app_total", "Calls that the app's limit refused."),
			retries:    metric.Counters(set.CounterVec("retries_total", "Failed calls whose messages are tried again.", "outcome"), sender.Transient, sender.RecipientThrottled, sender.NotAllowed, sender.PageStopped, sender.PageStoppedForATime),
			probes: metric.Counters(set.CounterVec("probes_total", "Calls made to find out whether more is possible: of a page that a refusal closed, of an API or page that is sick, of a suspended page.", "kind"),
				probePage, probeAPI, probeSuspended),
		},
		gauges: gauges{
			held:       set.Gauge("held", "Messages in hand: in calls, waiting, or on their way to another queue."),
			inFlight:   set.Gauge("in_flight", "Calls in flight."),
			limit:      set.Gauge("calls_limit", "Most calls in flight at the moment: MAX_IN_FLIGHT, or fewer where LATENCY_TARGET is exceeded."),
			most:       set.Gauge("calls_max", "MAX_IN_FLIGHT."),
			turns:      set.Gauge("pages_waiting", "Pages and classes whose messages wait for a call to end, because too few are free."),
			partitions: set.Gauge("partitions", "Partitions that were delivered here lately."),
			lanes:      set.Gauge("lanes", "Lanes of this replica that pages in excess have."),
			excess:     set.Gauge("pages_in_excess", "Pages whose messages go to their lane."),
			sick:       set.Gauge("pages_sick", "Pages whose calls fail or hang, so that they are probed."),
			suspended:  set.Gauge("pages_suspended", "Pages that nothing is sent to: they have no token or permission, or are blocked for a time."),
			paused:     set.Gauge("pages_paused", "Pages that operators have paused: their messages wait. Every dispatcher counts all."),
			failing:    set.Gauge("recipients_failing", "Recipients whose messages failed lately."),
		},
		givenUp: metric.Counters(set.CounterVec("given_up_total", "Partitions given up, with their lanes: to a replica with a higher priority (outranked), for this one's own priority (rank), because something was held for long, after a pause of the process, because the API is silent, at the stop, because something waited without a reason that holds.", "reason"),
			"held", "outranked", "paused", "rank", "silent", "stop", "unexplained"),
		unexplained: set.Counter("unexplained_total", "Pages and classes whose messages waited for 10 s without a reason that holds: an error in this program."),
		age:         set.Histogram("message_age_seconds", "Time from the event at Messenger to the accepted send of its copy.", ages()),
		paceError: set.Histogram("pace_error_seconds", "How late a call was made that had to wait, against the moment at which its page's pace allowed it.",
			prometheus.ExponentialBuckets(0.0001, 4, 9)), // 0.1 ms to 6.6 s
		queueAge: make(map[string]prometheus.Observer),
		waiting:  make(map[Reason]prometheus.Gauge),
	}
	waiting := set.GaugeVec("waiting", "Messages in this replica's hands and in no call, by what their page's first one waits for.", "reason")
	for _, r := range reasons() {
		m.waiting[r] = waiting.WithLabelValues(string(r))
	}
	queueAge := set.HistogramVec("queue_age_seconds", "Time from the event at Messenger until its copy was taken from a queue.", "queue", ages())
	for _, name := range []string{fromPartition, fromLane, fromAll} {
		m.queueAge[name] = queueAge.WithLabelValues(name)
	}
	return m
}
