// Package metric registers Prometheus metrics so that all have names of one form,
// chatclub_SUBSYSTEM_NAME, and all histograms the same resolution.
package metric

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const namespace = "chatclub"

// Set registers the metrics of a subsystem. Each method registers one at once, and panics
// if there is one of that name.
type Set struct {
	Subsystem  string
	Registerer prometheus.Registerer // nil: metrics count without being shown
}

// Counter registers a counter.
func (s Set) Counter(name, help string) prometheus.Counter {
	return promauto.With(s.Registerer).NewCounter(prometheus.CounterOpts(s.opts(name, help)))
}

// CounterVec registers a counter for each value of a label.
func (s Set) CounterVec(name, help, label string) *prometheus.CounterVec {
	return promauto.With(s.Registerer).NewCounterVec(prometheus.CounterOpts(s.opts(name, help)), []string{label})
}

// Gauge registers a gauge.
func (s Set) Gauge(name, help string) prometheus.Gauge {
	return promauto.With(s.Registerer).NewGauge(prometheus.GaugeOpts(s.opts(name, help)))
}

// GaugeFunc registers a gauge whose value is looked up when it is read.
func (s Set) GaugeFunc(name, help string, value func() float64) {
	promauto.With(s.Registerer).NewGaugeFunc(prometheus.GaugeOpts(s.opts(name, help)), value)
}

// GaugeVec registers a gauge for each value of a label.
func (s Set) GaugeVec(name, help, label string) *prometheus.GaugeVec {
	return promauto.With(s.Registerer).NewGaugeVec(prometheus.GaugeOpts(s.opts(name, help)), []string{label})
}

// Histogram registers a histogram.
func (s Set) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return promauto.With(s.Registerer).NewHistogram(s.histogram(name, help, buckets))
}

// HistogramVec registers a histogram for each value of a label.
func (s Set) HistogramVec(name, help, label string, buckets []float64) *prometheus.HistogramVec {
	return promauto.With(s.Registerer).NewHistogramVec(s.histogram(name, help, buckets), []string{label})
}

func (s Set) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: namespace, Subsystem: s.Subsystem, Name: name, Help: help}
}

// histogram has native buckets beside the given ones, for servers that ask for them.
func (s Set) histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: s.Subsystem, Name: name, Help: help,
		Buckets: buckets, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
	}
}

// Counters looks up the counter of each value of a label, once. So each is there from the
// start.
func Counters[V comparable](vec *prometheus.CounterVec, values ...V) map[V]prometheus.Counter {
	counters := make(map[V]prometheus.Counter, len(values))
	for _, v := range values {
		counters[v] = vec.WithLabelValues(fmt.Sprint(v))
	}
	return counters
}
