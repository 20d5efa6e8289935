package core

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"chatclub/internal/command"
	"chatclub/internal/message"
	"chatclub/internal/metric"
	"chatclub/internal/rooms"
)

// step is a part of core's work that can fail and is tried again.
type step string

const (
	stepMigrate    step = "migrate"
	stepReceive    step = "receive"
	stepPublish    step = "publish"
	stepDone       step = "done"
	stepAck        step = "ack"
	stepFeedback   step = "feedback"
	stepDeadLetter step = "dead_letter"
	stepPrune      step = "prune"
	stepPolicy     step = "policy"
	stepSweep      step = "sweep"
	stepCount      step = "count"
	stepAudience   step = "audience"
	stepOverview   step = "overview"
)

// steps holds every step.
var steps = []step{
	stepMigrate, stepReceive, stepPublish, stepDone, stepAck, stepFeedback, stepDeadLetter, stepPrune, stepPolicy, stepSweep, stepCount,
	stepAudience, stepOverview,
}

type metrics struct {
	events                 *prometheus.CounterVec
	copies                 prometheus.Counter
	leftOut, leftOutCopies prometheus.Counter
	joins                  prometheus.Counter
	commands               *prometheus.CounterVec
	rejected               *prometheus.CounterVec
	idle                   prometheus.Counter
	pauses                 *prometheus.CounterVec
	paused                 *prometheus.GaugeVec
	quota                  prometheus.Gauge
	repeated               prometheus.Counter
	reproduced             prometheus.Counter
	stale                  prometheus.Counter
	unexplained            prometheus.Counter
	dead                   *prometheus.CounterVec
	failures               map[step]prometheus.Counter
	duration               prometheus.Histogram
	inHand                 prometheus.Gauge
}

// newMetrics registers every series, so that each exists from the start. reg may
// be nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	set := setOf(reg)
	m := &metrics{
		events:        set.CounterVec("events_total", "Events whose handling began, by kind; one that is delivered again counts again.", "kind"),
		copies:        set.Counter("copies_total", "Messages confirmed on their page's partition."),
		leftOut:       set.Counter("left_out_events_total", "Messages of users that were not passed on, because their copies would have come later than FRESH_WITHIN. The log names page and room."),
		leftOutCopies: set.Counter("left_out_copies_total", "Copies that were not made of them."),
		joins:         set.Counter("joins_total", "Users who joined a room."),
		commands:      set.CounterVec("commands_total", "Commands of users, by kind; unknown: a slash and a word that is no command.", "kind"),
		rejected:      set.CounterVec("rejected_total", "Events without effect, by reason: flood: their user sends more than FLOOD_LIMIT; share: it takes more than FLOOD_SHARE of a page that is pressed; ban.", "reason"),
		idle:          set.Counter("idle_total", "Members told that they left a room because they were silent."),
		pauses:        set.CounterVec("page_pauses_total", "Pauses of pages, by cause: stopped is reported by dispatchers, each replica for itself, policy by Meta.", "cause"),
		paused:        set.GaugeVec("pages_paused", "Pages that core holds, by cause, counted every minute; every core counts all. Those paused by order: chatclub_dispatch_pages_paused.", "cause"),
		quota:         set.Gauge("quota_share_max", "Share of its 24 h quota used by the page that has used most, counted every minute. Every core counts all pages."),
		repeated:      set.Counter("repeated_total", "Events dropped because they were finished before."),
		reproduced:    set.Counter("reproduced_total", "Events whose copies were made again because they were begun but not finished before."),
		stale:         set.Counter("stale_total", "Deliveries skipped because their connection was lost; their messages are delivered again."),
		unexplained:   set.Counter("unexplained_total", "Pages found with events that waited for 10 s without a reason that holds. The log names the page."),
		dead:          set.CounterVec("dead_total", "Events moved to the dead-letter queue, by reason.", "reason"),
		failures:      make(map[step]prometheus.Counter),
		duration: set.Histogram("event_duration_seconds", "Time from the beginning of an event's handling to its settlement.",
			prometheus.ExponentialBuckets(0.001, 2, 15)), // 1 ms to 16 s
		inHand: set.Gauge("in_hand_events", "Events being handled."),
	}
	m.initSeries()
	for _, s := range steps {
		// Not a vector, because package broadcast registers a step of its own.
		m.failures[s] = promauto.With(reg).NewCounter(prometheus.CounterOpts{
			Name: "chatclub_core_failures_total", Help: "Failed steps, each tried again, by step.", ConstLabels: prometheus.Labels{"step": string(s)},
		})
	}
	return m
}

// registerPartitions registers the gauge of the partitions that are this core's.
func (*metrics) registerPartitions(reg prometheus.Registerer, owned func() int) {
	setOf(reg).GaugeFunc("partitions", "Partitions of events of which one is held, or came in the last 10 s.", func() float64 { return float64(owned()) })
}

func setOf(reg prometheus.Registerer) metric.Set {
	return metric.Set{Subsystem: "core", Registerer: reg}
}

// initSeries makes the series of the vectors.
func (m *metrics) initSeries() {
	for _, kind := range []message.Kind{message.KindMessage, message.KindPostback, message.KindPolicy, message.KindFeedback, message.KindDeletion, message.KindIdle, message.KindOther} {
		m.events.WithLabelValues(string(kind))
	}
	for kind := command.Unknown; kind <= command.Help; kind++ {
		m.commands.WithLabelValues(kind.String())
	}
	for _, cause := range []string{causeStopped, causePolicy} {
		m.pauses.WithLabelValues(cause)
	}
	for _, why := range []rooms.Rejection{rooms.Flood, rooms.Share, rooms.Ban} {
		m.rejected.WithLabelValues(string(why))
	}
	m.setOverview(rooms.Overview{})
	for _, reason := range []message.Reason{message.ReasonUndecodable, message.ReasonBadMessage} {
		m.dead.WithLabelValues(string(reason))
	}
}

// setOverview sets the gauges of all pages. The word before the colon of a
// pause's reason is its cause.
func (m *metrics) setOverview(view rooms.Overview) {
	paused := map[string]int{causeStopped: 0, causePolicy: 0, causeOperator: 0}
	for reason, n := range view.Paused {
		cause, _, _ := strings.Cut(reason, ":")
		if cause != causeStopped && cause != causePolicy {
			cause = causeOperator
		}
		paused[cause] += n
	}
	for cause, n := range paused {
		m.paused.WithLabelValues(cause).Set(float64(n))
	}
	m.quota.Set(view.QuotaShare)
}
