package demo

import (
	"slices"
	"sync"
	"time"

	"chatclub/internal/console"
)

const (
	keptReceipts = 12
	keptMarkers  = 40
)

// receipts are the results of visitors' actions. The zero value is empty.
type receipts struct {
	mu      sync.Mutex
	n       int
	list    []console.Receipt // the latest first
	markers []console.Marker
}

// begin writes a receipt that is not final, and marks the moment in the charts.
func (r *receipts) begin(text, marker, page string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.n++
	r.list = slices.Insert(r.list, 0, console.Receipt{N: r.n, At: now, Text: text, Level: console.Calm})
	r.list = r.list[:min(len(r.list), keptReceipts)]
	r.markLocked(now, marker, page)
	return r.n
}

// mark marks a moment.
func (r *receipts) mark(marker, page string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markLocked(time.Now(), marker, page)
}

func (r *receipts) markLocked(now time.Time, marker, page string) {
	if marker == "" {
		return
	}
	r.markers = append(r.markers, console.Marker{At: now, Text: marker, Page: page})
	r.markers = slices.DeleteFunc(r.markers, func(m console.Marker) bool {
		return now.Sub(m.At) > console.HistorySeconds*time.Second
	})
	r.markers = r.markers[max(0, len(r.markers)-keptMarkers):]
}

// write changes a receipt.
func (r *receipts) write(n int, text string, level console.Level, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if r.list[i].N == n {
			r.list[i].Text, r.list[i].Level, r.list[i].Done = text, level, done
		}
	}
}

// Receipts implements console.Demo.
func (r *receipts) Receipts() []console.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]console.Receipt{}, r.list...)
}

// Markers implements console.Demo.
func (r *receipts) Markers() []console.Marker {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := append([]console.Marker{}, r.markers...)
	slices.SortStableFunc(list, func(a, b console.Marker) int { return a.At.Compare(b.At) })
	return list
}
