package dispatch

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"chatclub/internal/message"
)

// A line is a queue for each recipient, whatever is taken out, put back and
// removed; what is counted is what is there, and an empty line is forgotten.
func TestLineIsAQueuePerRecipient(t *testing.T) {
	t.Parallel()
	d := newBench(t).Dispatcher
	rapid.Check(t, func(t *rapid.T) {
		p := newPages(&run{Dispatcher: d}, nil)
		key := (&held{out: message.Outbound{Page: "p", Class: message.ClassText}}).key()
		l := p.line(key)
		partition, other := &source{}, &source{lane: &lane{}}
		model := map[string][]*held{}
		out := map[*recipient][]*held{} // taken, in calls
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				p.seq++
				m := &held{seq: p.seq, out: message.Outbound{To: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "to"))}}
				m.source = []*source{partition, other}[rapid.IntRange(0, 1).Draw(t, "source")]
				l = p.line(key)
				p.push(l, m)
				i := len(model[m.out.To])
				for ; m.source == other && i > 0 && model[m.out.To][i-1].source == partition; i-- { // it is older
				}
				model[m.out.To] = slices.Insert(model[m.out.To], i, m)
			case 3: // the first recipient's messages go out in a call
				if len(l.ready) == 0 {
					continue
				}
				r := l.ready[0]
				for _, o := range l.ready {
					if o.place < r.place {
						t.Fatalf("%s stands before %s", o.to, r.to)
					}
				}
				n := rapid.IntRange(1, len(r.msgs)).Draw(t, "joined")
				r.busy = true
				out[r] = r.take(n)
				if want := model[r.to][:n]; !slices.Equal(out[r], want) {
					t.Fatalf("took %v of %s, want %v", out[r], r.to, want)
				}
				model[r.to] = model[r.to][n:]
			case 4: // a call ends
				for r, msgs := range out {
					delete(out, r)
					if rapid.Bool().Draw(t, "refused") {
						r.behind = p.seq
						r.putBack(msgs)
						model[r.to] = append(slices.Clone(msgs), model[r.to]...)
					}
					r.proceed()
					break
				}
				p.tidy(l)
			case 5:
				match := func(m *held) bool { return m.source == partition }
				got := l.remove(match)
				if !slices.IsSortedFunc(got, func(a, b *held) int { return cmp.Compare(a.seq, b.seq) }) {
					t.Fatalf("removed out of order: %v", got)
				}
				n := 0
				for to, msgs := range model {
					before := len(msgs)
					model[to] = slices.DeleteFunc(slices.Clone(msgs), match)
					n += before - len(model[to])
				}
				if len(got) != n {
					t.Fatalf("removed %d, want %d", len(got), n)
				}
				p.tidy(l)
			}
			waiting, direct, ready := 0, 0, 0
			for to, msgs := range model {
				waiting += len(msgs)
				r := l.recipients[to]
				if r == nil {
					if len(msgs) > 0 {
						t.Fatalf("%s is forgotten with %d messages", to, len(msgs))
					}
					continue
				}
				if !slices.Equal(r.msgs, msgs) {
					t.Fatalf("%s has %v, want %v", to, r.msgs, msgs)
				}
				if len(msgs) > 0 && !r.busy {
					ready++
				}
				for _, m := range msgs {
					if m.source == partition {
						direct++
					}
				}
			}
			if l.waiting != waiting || l.fromPartition != direct || len(l.ready) != ready {
				t.Fatalf("waiting %d, direct %d, ready %d; want %d, %d, %d", l.waiting, l.fromPartition, len(l.ready), waiting, direct, ready)
			}
			if empty := waiting == 0 && len(out) == 0; empty != (len(l.recipients) == 0) {
				t.Fatalf("%d recipients are known, empty: %v", len(l.recipients), empty)
			}
		}
	})
}
