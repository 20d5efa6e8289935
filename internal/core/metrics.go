package core

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"chatclub/internal/command"
	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

// step is a part of handling an event that can fail and be tried again.
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
	stepBroadcast  step = "broadcast"
)

type metrics struct {
	events       *prometheus.CounterVec
	copies       prometheus.Counter
	joins        prometheus.Counter
	commands     *prometheus.CounterVec
	rejected     prometheus.Counter
	idle         prometheus.Counter
	pauses       *prometheus.CounterVec
	overflowed   prometheus.Counter
	repeated     prometheus.Counter
	reproduced   prometheus.Counter
	stale        prometheus.Counter
	dead         *prometheus.CounterVec
	failures     *prometheus.CounterVec
	broadcasts   *prometheus.CounterVec
	castMessages prometheus.Counter
	casts        prometheus.Gauge
	bulkFull     prometheus.Gauge
	duration     prometheus.Histogram
	inHand       prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	const ns, sub = "chatclub", "core"
	auto := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
	}
	m := &metrics{
		events:       vec("events_total", "Events taken in hand, by kind; one that is delivered again counts again.", "kind"),
		copies:       counter("copies_total", "Messages confirmed on the outbound queue."),
		joins:        counter("joins_total", "Users who joined a room."),
		commands:     vec("commands_total", "Commands of users, by kind; unknown is what looks like one.", "kind"),
		rejected:     counter("rejected_total", "Events without effect because their user floods or is banned."),
		idle:         counter("idle_total", "Members told that they left a room because they were silent."),
		pauses:       vec("page_pauses_total", "What paused pages: stopped is what dispatchers tell, each replica for itself, policy is Meta's word.", "cause"),
		overflowed:   counter("overflowed_total", "Copies put on their page's lane because the page's copies outran its limit."),
		repeated:     counter("repeated_total", "Events dropped because they were finished before."),
		reproduced:   counter("reproduced_total", "Events whose copies were made again because they were begun but not finished before."),
		stale:        counter("stale_total", "Deliveries skipped because their connection was lost; their messages are delivered again."),
		dead:         vec("dead_total", "Events moved to the dead-letter queue, by reason.", "reason"),
		failures:     vec("failures_total", "Failed steps, each tried again, by step.", "step"),
		broadcasts:   vec("broadcasts_total", "Broadcasts that ended, by how: all of it queued, stopped by an operator, or past its deadline.", "state"),
		castMessages: counter("broadcast_messages_total", "Messages of broadcasts confirmed on the bulk queue."),
		casts:        gauge("broadcasts_held", "Broadcasts that this core works on."),
		bulkFull:     gauge("bulk_full", "1 while broadcasts wait because the bulk queue is too long."),
		duration: auto.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "event_duration_seconds",
			Help:    "Time from taking an event in hand to its settlement.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
		}),
		inHand: gauge("in_hand_events", "Events being handled."),
	}
	for _, kind := range []message.Kind{message.KindMessage, message.KindPostback, message.KindPolicy, message.KindFeedback, message.KindIdle} {
		m.events.WithLabelValues(string(kind))
	}
	for kind := command.Unknown; kind <= command.Help; kind++ {
		m.commands.WithLabelValues(kind.String())
	}
	for _, cause := range []string{causeStopped, causePolicy} {
		m.pauses.WithLabelValues(cause)
	}
	for _, state := range []rooms.BroadcastState{rooms.BroadcastDone, rooms.BroadcastStopped, rooms.BroadcastExpired} {
		m.broadcasts.WithLabelValues(string(state))
	}
	for _, reason := range []message.Reason{message.ReasonUndecodable, message.ReasonBadMessage} {
		m.dead.WithLabelValues(string(reason))
	}
	for _, s := range []step{stepMigrate, stepReceive, stepPublish, stepDone, stepAck, stepFeedback, stepDeadLetter, stepPrune, stepPolicy, stepSweep, stepCount, stepBroadcast} {
		m.failures.WithLabelValues(string(s))
	}
	return m
}
