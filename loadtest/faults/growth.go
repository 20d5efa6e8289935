package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Usage is the use of one process at a moment.
type Usage struct {
	Process    string  // such as core-2
	Began      float64 // when it was started; only compared
	Memory     float64 // 0: a node, which keeps its log in memory
	Goroutines float64
	Files      float64 // open descriptors
}

// filesOf reads how many files the process of a group has open that has most, as a node
// of RabbitMQ has, which is below a shell; and when it began.
func filesOf(group int) (most, began float64) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, file := range stats {
		stat, _ := os.ReadFile(file) // an error is of a process that has ended
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest) // from the third of proc(5) on
		if len(fields) < 20 || fields[2] != strconv.Itoa(group) {
			continue
		}
		if open, _ := os.ReadDir(filepath.Dir(file) + "/fd"); float64(len(open)) > most {
			most = float64(len(open))
			began, _ = strconv.ParseFloat(fields[19], 64)
		}
	}
	return most, began
}

// sample is the usage of a process at a moment.
type sample struct {
	Usage
	at time.Time
}

// Growth is judged of processes that lived through so many samples, so long.
const (
	growthSamples = 8
	growthTime    = 10 * time.Minute
)

// growth returns a line for each process whose memory, goroutines or files have
// grown: the least of the last third of its samples is more than half as much again
// as the most of the first third, and by more than changes by chance.
func growth(samples []sample) (lines []string) {
	type life struct {
		process string
		began   float64
	}
	lives := make(map[life][]sample)
	for _, s := range samples {
		l := life{s.Process, s.Began}
		lives[l] = append(lives[l], s)
	}
	for _, life := range lives {
		last, third := life[len(life)-1], len(life)/3
		if len(life) < growthSamples || last.at.Sub(life[0].at) < growthTime {
			continue
		}
		for _, m := range []struct {
			what   string
			of     func(sample) float64
			chance float64
		}{
			{"MiB of memory", func(s sample) float64 { return s.Memory / (1 << 20) }, 32},
			{"goroutines", func(s sample) float64 { return s.Goroutines }, 100},
			{"open files", func(s sample) float64 { return s.Files }, 50},
		} {
			less := func(a, b sample) int { return int(m.of(a) - m.of(b)) }
			most, least := m.of(slices.MaxFunc(life[:third], less)), m.of(slices.MinFunc(life[len(life)-third:], less))
			if least > 1.5*most && least > most+m.chance {
				lines = append(lines, fmt.Sprintf("%s has %.0f %s, and had at most %.0f in its first third", last.Process, least, m.what, most))
			}
		}
	}
	slices.Sort(lines)
	return lines
}
