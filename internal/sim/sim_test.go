package sim

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
)

var (
	first   = flag.Uint64("seed", 0, "the first seed; 0: those of the table, with -for a new one")
	seeds   = flag.Uint64("seeds", 1, "the number of seeds from -seed on")
	playFor = flag.Duration("for", 0, "play seed after seed for so long")
	times   = flag.Int("times", 1, "how often each seed is played")
	without = flag.String("without", "", "numbers of faults that do not happen, with commas")
	only    = flag.String("only", "", "kinds of faults that are drawn, with commas; empty: all")
	shrinks = flag.Bool("shrink", false, "take faults away from a seed that fails, as long as it does")
	file    = flag.String("history", "", "the file for the whole history of the last play, with the programs' logs")
)

const (
	calmBefore = 40 * time.Second // all have joined, and partitions have their owners
	faultTime  = 5 * time.Minute
	// drainTime is the longest time to drain once all is healed. What waited leaves at the
	// page's limit.
	drainTime = 10 * time.Minute
	// deadAfter is that where somebody could not be sent to: the next try may be in an hour.
	deadAfter = 75 * time.Minute
)

// table has seeds that are always played: some of each version of the broker's rules, and
// those that have failed.
func table() []uint64 { return []uint64{1, 2, 3, 5004} }

// TestSim plays the whole system.
func TestSim(t *testing.T) {
	if *playFor > 0 {
		playOn(t)
		return
	}
	list := table()
	if *first > 0 {
		list = nil
		for i := range *seeds {
			list = append(list, *first+i)
		}
	}
	for _, seed := range list {
		for range *times {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { playSeed(t, seed) })
		}
	}
}

// playOn plays new seeds until the time is up, on all processors.
func playOn(t *testing.T) {
	t.Helper()
	began, end := *first, time.Now().Add(*playFor)
	if began == 0 {
		began = uint64(rand.Uint32())
	}
	var next atomic.Uint64
	t.Cleanup(func() { fmt.Printf("sim: played %d seeds from %d on\n", next.Load(), began) })
	for i := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("player", i), func(t *testing.T) {
			t.Parallel()
			for time.Now().Before(end) {
				seed := began + next.Add(1) - 1
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { playSeed(t, seed) })
			}
		})
	}
}

func playSeed(t *testing.T, seed uint64) {
	t.Helper()
	s := newScene(seed)
	faults := draw(rand.New(rand.NewPCG(seed, 2)), s, *only)
	faults = slices.DeleteFunc(faults, func(f fault) bool {
		return slices.Contains(strings.Split(*without, ","), strconv.Itoa(f.number))
	})
	w := play(t, s, faults)
	if *file != "" {
		w.dump(t)
	}
	if len(w.failures) == 0 {
		return
	}
	t.Error(w.report())
	if *shrinks {
		t.Logf("it fails with these faults alone:\n%s", lines(shrink(t, s, faults, w.failures[0].kind)))
	}
}

// shrink takes away one fault after the other, as long as a promise of the kind is still broken.
func shrink(t *testing.T, s scene, faults []fault, kind string) []fault {
	t.Helper()
	const tries = 3                          // a seed that fails does so again in most plays, not in all
	for i := range slices.Backward(faults) { // as they were: those before i stay
		fewer := slices.Delete(slices.Clone(faults), i, i+1)
		for range tries {
			w := play(t, s, fewer)
			if slices.ContainsFunc(w.failures, func(f failure) bool { return f.kind == kind }) {
				faults = fewer
				break
			}
		}
	}
	return faults
}

func lines(faults []fault) string {
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// play plays a scene in a bubble of its own.
func play(t *testing.T, s scene, faults []fault) (w *world) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if w, err = open(s); err != nil {
			t.Fatal(err)
		}
		w.log = *file != ""
		w.play(faults)
	})
	return w
}

// play has people write and things fail, then heals all and judges.
func (w *world) play(faults []fault) {
	for range 1 + w.script.IntN(2) {
		w.begin(false)
	}
	for range 1 + w.script.IntN(3) {
		w.begin(true)
	}
	time.Sleep(8 * time.Second)
	w.round("hello", false)
	time.Sleep(time.Until(w.start.Add(calmBefore)))
	w.work.Go(func() {
		for _, f := range faults {
			time.Sleep(time.Until(w.start.Add(f.at)))
			w.strike(f)
		}
	})
	for end := time.Now().Add(faultTime); time.Now().Before(end); {
		w.act()
		time.Sleep(time.Duration(100+w.script.IntN(900)) * time.Millisecond)
	}
	w.work.Wait() // of posts, and the ends of faults
	w.heal()
	w.note("FAULT", "all is healed", "", "")
	w.drain()
	w.check()
	// Everybody is heard by everybody again.
	w.round("wake", false)
	time.Sleep(2 * time.Minute)
	from := len(w.texts)
	w.round("last", true)
	time.Sleep(time.Minute)
	if w.keepsDead {
		w.drain()
	}
	w.checkRound(from)
	w.end()
}

// drain waits until nothing is on its way, or must not be any more. RabbitMQ 4.3 may have to take
// back before what it delivers to a consumer that is gone.
func (w *world) drain() {
	most := drainTime
	if w.anyDead() {
		most = deadAfter
	}
	if w.keepsDead {
		most += queue.MaxHeld
	}
	for end := time.Now().Add(most); time.Now().Before(end) && !w.isDrained(); {
		time.Sleep(15 * time.Second)
	}
}

// heal has a core and a dispatcher run, and ends what does not end by itself.
func (w *world) heal() {
	for _, isDisp := range []bool{false, true} {
		if len(w.living(isDisp)) == 0 {
			w.begin(isDisp)
		}
	}
	for _, page := range w.pages {
		w.ofPage(page, func(p *fakeapi.PageSettings) { p.Text = 0 })
		w.give(orders.Order{Kind: orders.Limit, Page: page})
		w.give(orders.Order{Kind: orders.Resume, Page: page})
	}
	w.work.Wait()
	w.pagesChanged(w.pages...)
}

// end stops all programs. A goroutine that is left fails the bubble.
func (w *world) end() {
	owners := w.owners()
	for _, p := range w.programs {
		p.cancel()
	}
	for _, p := range w.programs {
		<-p.done
	}
	w.work.Wait()
	w.checkEmpty(owners)
	w.checkExplained()
	for _, err := range []error{w.base.Close(), w.store.Close()} {
		if err != nil {
			w.fail("CLOSE", "", "%v", err)
		}
	}
}

// report is all that a reader needs: what was broken, all faults, and the history of the first
// messages concerned, with who consumed their queues.
func (w *world) report() string {
	var b strings.Builder
	sums := make(map[string]int)
	for _, f := range w.failures {
		if sums[f.kind]++; sums[f.kind] <= 3 {
			fmt.Fprintf(&b, "%s: %s %s\n", f.kind, f.id, f.text)
		}
	}
	fmt.Fprintf(&b, "seed %d, like RabbitMQ 4.3: %v, sums %v; again: go test ./internal/sim -run TestSim -seed %d\n", w.seed, w.keepsDead, sums, w.seed)
	var ids []string
	for _, f := range w.failures {
		if f.id != "" && !slices.Contains(ids, f.id) && len(ids) < 3 {
			ids = append(ids, f.id)
		}
	}
	names := make(map[string]bool)
	for _, e := range w.hist {
		if slices.ContainsFunc(ids, func(id string) bool { return belongs(e, id) }) && (e.what == "published" || e.what == "delivered") {
			names[e.queue] = true
		}
	}
	fmt.Fprintf(&b, "of %v, on %v:\n", ids, slices.Sorted(maps.Keys(names)))
	for _, e := range w.hist {
		isOf := slices.ContainsFunc(ids, func(id string) bool { return belongs(e, id) })
		isWho := names[e.queue] && (strings.HasPrefix(e.what, "CONSUME") || strings.HasPrefix(e.what, "CLOSE"))
		if isOf || isWho || e.who == "FAULT" || e.what == "START" || e.what == "ENDED" {
			fmt.Fprintln(&b, e)
		}
	}
	return b.String()
}

// belongs reports whether a line is about a message, or about the text that it is a copy of.
func belongs(e entry, id string) bool {
	return e.id != "" && (e.id == id || strings.HasSuffix(e.id, "/") && strings.HasPrefix(id, e.id))
}

func (w *world) dump(t *testing.T) {
	t.Helper()
	f, err := os.Create(*file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, e := range w.hist {
		if _, err := io.WriteString(f, e.String()+"\n"); err != nil {
			t.Fatal(err)
		}
	}
}
