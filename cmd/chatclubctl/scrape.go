package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"chatclub/internal/replicas"
)

// The metrics that top reads.
const (
	eventsQueued   = "chatclub_webhook_events_total"
	eventsHandled  = "chatclub_core_events_total"
	copiesMade     = "chatclub_core_copies_total"
	messagesSent   = "chatclub_dispatch_sent_total"
	callsRefused   = "chatclub_dispatch_refused_total"
	messagesDead   = "chatclub_dispatch_dead_total"
	callsInFlight  = "chatclub_dispatch_in_flight"
	callsLimit     = "chatclub_dispatch_calls_limit"
	pagesInExcess  = "chatclub_dispatch_pages_in_excess"
	pagesSick      = "chatclub_dispatch_pages_sick"
	pagesSuspended = "chatclub_dispatch_pages_suspended"
	messageAge     = "chatclub_dispatch_message_age_seconds"
)

// scrape is what a replica's /metrics said at a moment: of each name the sum over
// its labels.
type scrape struct {
	at      time.Time
	values  map[string]float64
	buckets map[float64]float64 // of messageAge: how many were at most so many seconds old
}

// readMetrics asks a replica for its metrics.
func readMetrics(ctx context.Context, c replicas.Client, r replicas.Replica) (*scrape, error) {
	s := &scrape{values: make(map[string]float64), buckets: make(map[float64]float64)}
	err := c.Read(ctx, r.URL+"/metrics", func(body io.Reader) error {
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(body)
		for name, f := range families {
			for _, m := range f.GetMetric() {
				s.add(name, m)
			}
		}
		if err != nil {
			return fmt.Errorf("read metrics: %w", err)
		}
		return nil
	})
	s.at = time.Now()
	return s, err
}

func (s *scrape) add(name string, m *dto.Metric) {
	s.values[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	if name == messageAge {
		for _, b := range m.GetHistogram().GetBucket() {
			s.buckets[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
}

// growth is how much the counters of one replica grew between two scrapes.
type growth struct {
	last, before *scrape // nil: there is none yet
}

// see takes in the latest scrape, which may have been seen before.
func (g *growth) see(s *scrape) {
	if g.last == nil || s.at.After(g.last.at) {
		g.before, g.last = g.last, s
	}
}

// of returns the growth of a counter a second. A replica that began anew counts
// from 0.
func (g *growth) of(name string) float64 {
	if g.before == nil {
		return 0
	}
	return grown(g.last.values[name], g.before.values[name]) / g.last.at.Sub(g.before.at).Seconds()
}

// ages adds to all, bucket by bucket, how many messages of which age were sent.
func (g *growth) ages(all map[float64]float64) {
	if g.before == nil {
		return
	}
	for bound, n := range g.last.buckets {
		all[bound] += grown(n, g.before.buckets[bound])
	}
}

func grown(now, before float64) float64 {
	if now < before {
		return now
	}
	return now - before
}

// quantile returns the age that a part q of the messages is at most, between two
// bounds of a histogram as Prometheus does it: evenly. NaN: there are none; above
// the last bound: that bound.
func quantile(q float64, cumulative map[float64]float64) float64 {
	type bucket struct{ bound, n float64 }
	var list []bucket
	for bound, n := range cumulative {
		list = append(list, bucket{bound, n})
	}
	slices.SortFunc(list, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	if len(list) == 0 || list[len(list)-1].n == 0 {
		return math.NaN()
	}
	rank := q * list[len(list)-1].n
	var low bucket
	for _, b := range list {
		switch {
		case b.n < rank:
			low = b
		case math.IsInf(b.bound, 1):
			return low.bound
		default:
			return low.bound + (b.bound-low.bound)*(rank-low.n)/(b.n-low.n)
		}
	}
	return low.bound
}
