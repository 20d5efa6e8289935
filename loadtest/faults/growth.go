package faults

import (
	"fmt"
	"slices"
	"time"
)

// Usage is the use of one process at a moment.
type Usage struct {
	Process    string // such as core-2
	PID        int    // another after a restart
	Memory     float64
	Goroutines float64
	Files      float64 // open descriptors
}

// Sample is the usage of all processes at a moment.
type Sample struct {
	At    time.Time
	Usage []Usage
}

// Growth is judged of processes that lived through so many samples, so long.
const (
	growthSamples = 8
	growthTime    = 10 * time.Minute
)

// growth returns a line for each process whose memory, goroutines or files have
// grown: the least of the last third of its samples is more than half as much again
// as the most of the first third, and by more than changes by chance.
func growth(samples []Sample) (lines []string) {
	type life struct {
		process string
		pid     int
	}
	series := make(map[life][]Usage)
	var order []life
	began, ended := make(map[life]time.Time), make(map[life]time.Time)
	for _, s := range samples {
		for _, u := range s.Usage {
			l := life{u.Process, u.PID}
			if _, known := series[l]; !known {
				order = append(order, l)
				began[l] = s.At
			}
			series[l], ended[l] = append(series[l], u), s.At
		}
	}
	for _, l := range order {
		all := series[l]
		if len(all) < growthSamples || ended[l].Sub(began[l]) < growthTime {
			continue
		}
		lines = append(lines, grown(l.process, all)...)
	}
	return lines
}

// grown compares the ends of one process's series.
func grown(process string, all []Usage) (lines []string) {
	third := len(all) / 3
	for _, m := range []struct {
		what   string
		of     func(Usage) float64
		chance float64
	}{
		{"MiB of memory", func(u Usage) float64 { return u.Memory / (1 << 20) }, 32},
		{"goroutines", func(u Usage) float64 { return u.Goroutines }, 100},
		{"open files", func(u Usage) float64 { return u.Files }, 50},
	} {
		most, least := 0., m.of(all[len(all)-1])
		for _, u := range all[:third] {
			most = max(most, m.of(u))
		}
		for _, u := range slices.Backward(all[len(all)-third:]) {
			least = min(least, m.of(u))
		}
		if least > 1.5*most && least > most+m.chance {
			lines = append(lines, fmt.Sprintf("%s has %.0f %s, and had at most %.0f in its first third", process, least, m.what, most))
		}
	}
	return lines
}
