package fakeapi

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector returns the ledger and the answers as metrics. They are read when
// they are collected, so that judging a call costs nothing more.
func (a *API) Collector() prometheus.Collector { return newCollector(a) }

type collector struct {
	api      *API
	sends    *prometheus.Desc
	messages *prometheus.Desc
	ids      *prometheus.Desc
	errors   *prometheus.Desc
	pending  *prometheus.Desc
	events   *prometheus.Desc
	posts    *prometheus.Desc
	retries  *prometheus.Desc
	alerts   *prometheus.Desc
	stopped  *prometheus.Desc
}

func newCollector(a *API) *collector {
	return &collector{
		api: a,
		sends: prometheus.NewDesc("fakeapi_sends_total",
			"Send API calls by their result.", []string{"result"}, nil),
		messages: prometheus.NewDesc("fakeapi_messages_total",
			"Accepted messages; more than the accepted calls where several went out as one.", nil, nil),
		// Not counters: an id that is announced late is no longer unexpected, and
		// an id that is excused is no longer expected.
		ids: prometheus.NewDesc("fakeapi_ids",
			"Message ids by their state in the ledger.", []string{"state"}, nil),
		errors: prometheus.NewDesc("fakeapi_errors_total",
			"Error answers by code and subcode.", []string{"code"}, nil),
		pending: prometheus.NewDesc("fakeapi_pending",
			"Message ids that are expected and not accepted now.", nil, nil),
		events: prometheus.NewDesc("fakeapi_events_total",
			"Events of the simulated users: posted, and of these undelivered; skipped because too many were unanswered.", []string{"state"}, nil),
		posts: prometheus.NewDesc("fakeapi_webhook_posts_total",
			"Webhooks sent, retries included.", nil, nil),
		retries: prometheus.NewDesc("fakeapi_webhook_retries_total",
			"Webhooks sent again because they were not answered 200.", nil, nil),
		alerts: prometheus.NewDesc("fakeapi_webhook_alerts_total",
			"Times that Messenger would have written to the developer because the webhook kept failing.", nil, nil),
		stopped: prometheus.NewDesc("fakeapi_webhook_unsubscribed",
			"Webhooks that failed for so long that Messenger would send no more events.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	t := c.api.ledger.Totals()
	count := func(d *prometheus.Desc, v int64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), label...)
	}
	count(c.sends, t.Calls, "accepted")
	count(c.messages, t.Accepted)
	count(c.sends, t.Refused, "refused")
	count(c.sends, t.Rejected, "rejected")
	count(c.sends, t.Errors, "error")
	count(c.sends, t.Actions, "action")
	for state, n := range map[string]int64{
		"expected": t.Expected, "duplicated": t.Duplicated, "unexpected": t.Unexpected, "excused": t.Excused, "inverted": t.Inversions,
	} {
		ch <- prometheus.MustNewConstMetric(c.ids, prometheus.GaugeValue, float64(n), state)
	}
	s := c.api.UserTotals()
	count(c.events, s.Events, "posted")
	count(c.events, s.Undelivered, "undelivered")
	count(c.events, s.Skipped, "skipped")
	count(c.posts, s.Posts)
	count(c.retries, s.Retries)
	count(c.alerts, s.Alerts)
	ch <- prometheus.MustNewConstMetric(c.stopped, prometheus.GaugeValue, float64(s.Unsubscribed))
	for code, n := range c.api.answers.counts {
		ch <- prometheus.MustNewConstMetric(c.errors, prometheus.CounterValue, float64(n.Load()), strings.Clone(string(code)))
	}
	ch <- prometheus.MustNewConstMetric(c.pending, prometheus.GaugeValue, float64(t.Pending))
}
