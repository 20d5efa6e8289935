package fakeapi

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that reads and writes itself as 40ms or 1m30s.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%.40q is not a duration such as 40ms", b)
	}
	*d = Duration(v)
	return nil
}

// Latency is the time that an answer takes, fixed or random. Its forms, as text:
//
//	none
//	fixed:40ms
//	lognormal:40ms,150ms   median and 99th percentile
//	load:75,260ms          up to 75 calls/s an answer takes 260ms, at r calls/s
//	                       beyond that 260ms × (1 + 0.3 × (r/75 − 1))
//	load:75,260ms,0.5      the same with another slope
//
// The slope 0.3 is that of a published experiment. There 75 requests/s took
// 260 ms and half of them 200 ms, so each doubling of the rate adds 30 % of the
// base.
//
// The zero value is none. Values are comparable.
type Latency struct {
	kind latencyKind
	base time.Duration // fixed value, median, or base latency
	p99  time.Duration
	rate float64 // calls/s
	grow float64
}

// RealLatency is that of the platform, lognormal:700ms,1.9s: half of the calls take
// 0.7 s, and one in a hundred takes 1.9 s or more.
func RealLatency() Latency {
	return Latency{kind: latencyLogNormal, base: 700 * time.Millisecond, p99: 1900 * time.Millisecond}
}

type latencyKind uint8

const (
	latencyNone latencyKind = iota
	latencyFixed
	latencyLogNormal
	latencyLoad
)

const defaultGrowth = 0.3

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// String returns the form that ParseLatency reads.
func (l Latency) String() string {
	switch l.kind {
	case latencyNone:
		return "none"
	case latencyFixed:
		return "fixed:" + l.base.String()
	case latencyLogNormal:
		return "lognormal:" + l.base.String() + "," + l.p99.String()
	case latencyLoad:
		return fmt.Sprintf("load:%g,%s,%g", l.rate, l.base, l.grow)
	}
	return "none"
}

// Describe returns the forms of its text, for the help of programs.
func (Latency) Describe() string {
	return "none, fixed:40ms, lognormal:40ms,150ms or load:75,260ms"
}

// MarshalText implements encoding.TextMarshaler.
func (l Latency) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Latency) UnmarshalText(b []byte) error {
	v, err := ParseLatency(string(b))
	if err != nil {
		return err
	}
	*l = v
	return nil
}

// ParseLatency reads the text form of a Latency.
func ParseLatency(s string) (Latency, error) {
	name, rest, _ := strings.Cut(s, ":")
	var args []string
	if rest != "" {
		args = strings.Split(rest, ",")
	}
	bad := fmt.Errorf("latency %.60q is not %s", s, Latency{}.Describe())
	var l Latency
	var err error
	switch {
	case name == "none" && len(args) == 0:
		return Latency{}, nil
	case name == "fixed" && len(args) == 1:
		l.kind = latencyFixed
		l.base, err = time.ParseDuration(args[0])
	case name == "lognormal" && len(args) == 2:
		l.kind = latencyLogNormal
		if l.base, err = time.ParseDuration(args[0]); err == nil {
			l.p99, err = time.ParseDuration(args[1])
		}
		if err == nil && (l.base <= 0 || l.p99 < l.base) {
			return Latency{}, fmt.Errorf("latency %.60q: the median must be above 0 and the 99th percentile not below it", s)
		}
	case name == "load" && (len(args) == 2 || len(args) == 3):
		l.kind, l.grow = latencyLoad, defaultGrowth
		if l.rate, err = strconv.ParseFloat(args[0], 64); err == nil {
			l.base, err = time.ParseDuration(args[1])
		}
		if err == nil && len(args) == 3 {
			l.grow, err = strconv.ParseFloat(args[2], 64)
		}
		// Written so that NaN fails, too.
		if err == nil && (!(l.rate > 0) || !(l.grow >= 0) || math.IsInf(l.rate, 0) || math.IsInf(l.grow, 0)) {
			return Latency{}, fmt.Errorf("latency %.60q: the rate must be above 0 and the slope not negative", s)
		}
	default:
		return Latency{}, bad
	}
	if err != nil {
		return Latency{}, bad
	}
	if l.base < 0 || l.base > time.Hour || l.p99 > time.Hour {
		return Latency{}, fmt.Errorf("latency %.60q must be 0 to 1h", s)
	}
	return l, nil
}

// sample returns the latency of one call. rate is the calls/s at the moment.
func (l Latency) sample(d *dice, rate float64) time.Duration {
	switch l.kind {
	case latencyNone:
		return 0
	case latencyFixed:
		return l.base
	case latencyLogNormal:
		sigma := math.Log(float64(l.p99)/float64(l.base)) / z99
		// Box and Muller; 1−roll is never 0.
		z := math.Sqrt(-2*math.Log(1-d.roll())) * math.Cos(2*math.Pi*d.roll())
		return atMostHour(float64(l.base) * math.Exp(sigma*z))
	case latencyLoad:
		over := max(0, rate/l.rate-1)
		return atMostHour(float64(l.base) * (1 + l.grow*over))
	}
	return 0
}

// atMostHour bounds a latency by an hour, which is longer than any client waits
// and fits a Duration.
func atMostHour(ns float64) time.Duration { return time.Duration(min(ns, float64(time.Hour))) }
