package excess

import (
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"
)

// pagesOf makes n keys; they are made before anything is measured.
func pagesOf(n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = Key{Page: strconv.Itoa(100_000_000_000_000 + i), Class: "text"}
	}
	return keys
}

// heap is the memory in use once the garbage is gone.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what the first one found may be swept only now
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// offerAll sends one message for each page, as a free page does.
func offerAll(m *Map, keys []Key, now time.Time) {
	for _, k := range keys {
		if d := m.Offer(now, k, false); d.Action == Send {
			m.Done(now, d.Permit, Accepted)
		}
	}
}

// ownAll makes every page's lane one that is delivered here, and leaves it.
func ownAll(m *Map, keys []Key, now time.Time) {
	for _, k := range keys {
		m.OfferLane(now, k)
	}
}

// Memory for a page that was sent to lately and for one that is owned, and
// that none is left after the page was idle. At the bounds a million pages
// take 128 MB when free, which is far above what a map of 40-byte entries needs
// right after it has grown, and 1 GB if every one of them were in excess.
func TestMemoryPerPage(t *testing.T) {
	const pages = 1 << 15
	keys := pagesOf(pages)
	for _, row := range []struct {
		name  string
		fill  func(*Map, []Key, time.Time)
		bytes float64
		left  float64 // of each when all are forgotten
	}{
		{"free", offerAll, 128, 2},   // its maps are replaced; 64 shards' empty ones and spare entries are about a byte a page
		{"owned", ownAll, 1024, 128}, // Go's maps keep their slots: 41 bytes at a load of 7/16 to 7/8
	} {
		m := newMap(4)
		before := heap()
		row.fill(m, keys, begin)
		got := (heap() - before) / pages
		t.Logf("%s: %.0f bytes per page", row.name, got)
		if got > row.bytes {
			t.Errorf("%s page takes %.0f bytes, want at most %.0f", row.name, got, row.bytes)
		}
		if n := remembered(m); n < pages {
			t.Errorf("%s: pages remembered = %d, want %d", row.name, n, pages)
		}
		idle(m, begin)
		if n := remembered(m); n != 0 {
			t.Errorf("%s: pages remembered after a minute without a message = %d, want 0", row.name, n)
		}
		if left := (heap() - before) / pages; left > row.left {
			t.Errorf("%s: %.1f bytes per page are left after it was forgotten, want at most %.0f", row.name, left, row.left)
		}
		runtime.KeepAlive(m)
	}
	runtime.KeepAlive(keys)
}

// idle lets a minute pass in which the lanes are looked at and found empty.
func idle(m *Map, now time.Time) {
	for range 60 {
		now = now.Add(time.Second)
		for _, k := range m.TakeDue(now) {
			m.SetLaneDepth(now, k, 0)
		}
	}
}

// cpu is the time that the collector and everything else of this process took.
func cpu() (gc, user float64) {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/user:cpu-seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64(), s[1].Value.Float64()
}

// messageCPU is what any dispatcher spends on one message: a bare loop of
// consume, POST and ack took 86 to 96 µs of CPU on two cores.
const messageCPU = 86 * time.Microsecond

// BenchmarkMillionPages is one message of the next of a million pages: asked
// for, sent and done. It reports the memory that a page takes, and the
// collector's part of the CPU twice: of this loop, which does nothing else
// than asking, and of a dispatcher, which spends messageCPU beside it.
func BenchmarkMillionPages(b *testing.B) {
	const pages = 1_000_000
	keys := pagesOf(pages)
	m := newMap(4)
	before := heap()
	now := begin
	offerAll(m, keys, now)
	perPage := (heap() - before) / pages
	gc, user := cpu()
	i, messages := 0, 0
	for b.Loop() {
		messages++
		// Each page is offered again after a second; the clock moves with them.
		now = now.Add(time.Microsecond)
		d := m.Offer(now, keys[i], false)
		if d.Action == Send {
			m.Done(now, d.Permit, Accepted)
		}
		if i++; i == pages {
			i = 0
		}
		if i%250_000 == 0 {
			m.TakeDue(now)
		}
	}
	runtime.GC() // so that the figures below are complete: they are taken at the end of a cycle
	gcEnd, userEnd := cpu()
	b.ReportMetric(perPage, "B/page")
	collected := gcEnd - gc
	b.ReportMetric(100*collected/(collected+userEnd-user), "gc-%-of-loop")
	b.ReportMetric(100*collected/(float64(messages)*messageCPU.Seconds()), "gc-%-of-dispatcher")
	if remembered(m) != pages {
		b.Errorf("pages remembered = %d, want %d", remembered(m), pages)
	}
	idle(m, now)
	if remembered(m) != 0 {
		b.Errorf("pages remembered after a minute without a message = %d, want 0", remembered(m))
	}
	runtime.KeepAlive(keys)
}
