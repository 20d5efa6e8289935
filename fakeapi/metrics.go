package fakeapi

import "github.com/prometheus/client_golang/prometheus"

// Collector returns the ledger and the answers as metrics. They are read when
// they are collected, so that judging a call costs nothing more.
func (a *API) Collector() prometheus.Collector { return collector{a} }

type collector struct{ api *API }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	one := func(kind prometheus.ValueType, name, help string, n int64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, float64(n))
	}
	each := func(kind prometheus.ValueType, name, help, label string, counts map[string]int64) {
		d := prometheus.NewDesc(name, help, []string{label}, nil)
		for value, n := range counts {
			ch <- prometheus.MustNewConstMetric(d, kind, float64(n), value)
		}
	}
	t, s := c.api.ledger.Totals(), c.api.UserTotals()
	errors := make(map[string]int64)
	for code, n := range c.api.answers.counts {
		errors[string(code)] = int64(n.Load()) //nolint:gosec // no run makes so many calls
	}
	each(counter, "fakeapi_sends_total", "Send API calls by their result.", "result", map[string]int64{
		"accepted": t.Calls, "refused": t.Refused, "rejected": t.Rejected, "error": t.Errors, "action": t.Actions,
	})
	one(counter, "fakeapi_messages_total", "Accepted messages; more than the accepted calls where several went out as one.", t.Accepted)
	// Not counters: an id that is announced late is no longer unexpected, and
	// an id that is excused is no longer expected.
	each(gauge, "fakeapi_ids", "Message ids by their state in the ledger.", "state", map[string]int64{
		"expected": t.Expected, "duplicated": t.Duplicated, "unexpected": t.Unexpected, "excused": t.Excused, "inverted": t.Inversions,
	})
	each(counter, "fakeapi_errors_total", "Error answers by code and subcode.", "code", errors)
	one(gauge, "fakeapi_pending", "Message ids that are expected and not accepted now.", t.Pending)
	each(counter, "fakeapi_events_total",
		"Events of the simulated users: posted, and of these undelivered; skipped because too many were unanswered.", "state",
		map[string]int64{"posted": s.Events, "undelivered": s.Undelivered, "skipped": s.Skipped})
	one(counter, "fakeapi_webhook_posts_total", "Webhooks sent, retries included.", s.Posts)
	one(counter, "fakeapi_webhook_retries_total", "Webhooks sent again because they were not answered 200.", s.Retries)
	one(counter, "fakeapi_webhook_alerts_total",
		"Times that Messenger would have written to the developer because the webhook kept failing.", s.Alerts)
	one(gauge, "fakeapi_webhook_unsubscribed", "Webhooks that failed for so long that Messenger would send no more events.", s.Unsubscribed)
}
