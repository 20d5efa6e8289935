package fakeapi

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector exports the book and the answers as metrics. They are read when
// they are asked for, so that judging costs nothing more.
func (a *API) Collector() prometheus.Collector { return newCollector(a) }

type collector struct {
	api     *API
	sends   *prometheus.Desc
	ids     *prometheus.Desc
	errors  *prometheus.Desc
	pending *prometheus.Desc
}

func newCollector(a *API) *collector {
	return &collector{
		api: a,
		sends: prometheus.NewDesc("fakeapi_sends_total",
			"Send API calls by what became of them.", []string{"result"}, nil),
		ids: prometheus.NewDesc("fakeapi_ids_total",
			"Message ids by what the ledger says of them.", []string{"state"}, nil),
		errors: prometheus.NewDesc("fakeapi_errors_total",
			"Error answers by code and subcode.", []string{"code"}, nil),
		pending: prometheus.NewDesc("fakeapi_pending",
			"Message ids that are expected and not accepted now.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.sends
	ch <- c.ids
	ch <- c.errors
	ch <- c.pending
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	t := c.api.book.Totals()
	count := func(d *prometheus.Desc, v int64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), label)
	}
	count(c.sends, t.Accepted, "accepted")
	count(c.sends, t.Refused, "refused")
	count(c.sends, t.Rejected, "rejected")
	count(c.sends, t.Errors, "error")
	count(c.ids, t.Expected, "expected")
	count(c.ids, t.Duplicated, "duplicated")
	count(c.ids, t.Unexpected, "unexpected")
	count(c.ids, t.Excused, "excused")
	count(c.ids, t.Inversions, "inverted")
	for code, n := range c.api.answered {
		ch <- prometheus.MustNewConstMetric(c.errors, prometheus.CounterValue, float64(n.Load()), strings.Clone(string(code)))
	}
	ch <- prometheus.MustNewConstMetric(c.pending, prometheus.GaugeValue, float64(t.Pending))
}
