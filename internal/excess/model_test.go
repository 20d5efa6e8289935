package excess

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naive is the free and the excess state as the package comment tells them, in
// the plainest way: it has no shards and never forgets anything.
type naive struct {
	every  time.Duration // at the share's pace
	bursts *bursts
	due    map[Key]time.Time
	sent   map[Key][]int64 // the slots of all sends
	excess map[Key]bool
	calls  map[Key]int
}

func (n *naive) offer(now time.Time, k Key) (Action, time.Duration) {
	if n.excess[k] {
		return Overflow, 0
	}
	due := n.due[k]
	if due.Before(now) {
		due = now
	}
	n.due[k] = due
	const slot = 200 * time.Millisecond
	at := now.UnixNano() / int64(slot)
	if early := due.Add(-20 * time.Millisecond).Sub(now); early > 0 {
		most := int(n.bursts.length(20*time.Millisecond, n.every) / n.every)
		if most == 0 {
			return Wait, early
		}
		recent := slices.DeleteFunc(slices.Clone(n.sent[k]), func(s int64) bool { return s < at-5 })
		if len(recent) >= most {
			passed := time.Unix(0, (recent[len(recent)-most]+6)*int64(slot))
			return Wait, min(early, passed.Sub(now))
		}
	}
	n.due[k] = due.Add(n.every)
	n.sent[k] = append(n.sent[k], at)
	n.calls[k]++
	return Send, 0
}

// The map answers exactly as the naive one does, whatever it has forgotten
// meanwhile, over any sequence of messages, results, waits and looks.
func TestMapIsTheNaiveOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.IntRange(1, 64).Draw(t, "replicas")
		m := newMap(replicas)
		model := naive{
			every: time.Duration(float64(time.Second) / (0.98 * limit / float64(replicas))), bursts: &m.bursts,
			due: map[Key]time.Time{}, sent: map[Key][]int64{}, excess: map[Key]bool{}, calls: map[Key]int{},
		}
		now := begin
		var open []Permit
		// Steps of microseconds race the share; of seconds, forgetting.
		gap := rapid.OneOf(rapid.IntRange(0, 5000), rapid.IntRange(0, 25_000_000))
		page := rapid.SampledFrom([]string{"a", "b", "c"})
		class := rapid.SampledFrom([]string{"text", "media"})
		t.Repeat(map[string]func(*rapid.T){
			"offer": func(t *rapid.T) {
				k := Key{Page: page.Draw(t, "page"), Class: class.Draw(t, "class")}
				do, wait := model.offer(now, k)
				d := m.Offer(now, k, false)
				if d.Action != do || d.Wait != wait {
					t.Fatalf("Offer of %v = %v, wait %v; want %v, wait %v", k, d.Action, d.Wait, do, wait)
				}
				if d.Action == Send {
					open = append(open, d.Permit)
				}
			},
			"done": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("no call in flight")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				p := open[i]
				open = append(open[:i], open[i+1:]...)
				r := rapid.SampledFrom([]Result{Accepted, Accepted, Accepted, Other, Refused}).Draw(t, "result")
				model.calls[p.Key]--
				model.excess[p.Key] = model.excess[p.Key] || r == Refused
				if d := m.Done(now, p, r); d.Action != Overflow {
					t.Fatalf("Done(%v) of a free page = %v, want Overflow", r, d.Action)
				}
			},
			"overflow": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
					t.Skip("else every page is in excess soon")
				}
				k := Key{Page: page.Draw(t, "page"), Class: "text"}
				m.Overflow(now, k, 33)
				model.excess[k] = true
			},
			"wait": func(t *rapid.T) { now = now.Add(time.Duration(gap.Draw(t, "µs")) * time.Microsecond) },
			"look": func(*rapid.T) { m.TakeDue(now) },
			"": func(t *rapid.T) {
				excess := 0
				for k, in := range model.excess {
					if in {
						excess++
					}
					if m.InExcess(k) != in {
						t.Fatalf("InExcess(%v) = %v, want %v", k, !in, in)
					}
				}
				if got := m.Counts(); got != (Counts{Excess: excess}) {
					t.Fatalf("Counts = %+v, want %d in excess", got, excess)
				}
				for _, v := range m.Views(10) {
					if v.InFlight != model.calls[v.Key] {
						t.Fatalf("calls of %v in flight = %d, want %d", v.Key, v.InFlight, model.calls[v.Key])
					}
				}
			},
		})
	})
}
