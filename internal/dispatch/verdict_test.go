package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// answers are those of the platform for one person, none of which says that of a page.
func answers() []sender.Result {
	coded := func(o sender.Outcome, code, subcode int) sender.Result {
		return sender.Result{Outcome: o, Status: 400, Code: code, Subcode: subcode, Err: errors.New("scripted")}
	}
	return []sender.Result{
		coded(sender.Transient, 4711, 0), timeout(), fail(sender.Transient), // a code that nobody knows; no answer; 500
		coded(sender.NotAllowed, 200, 0), coded(sender.NotAllowed, 10, 0), coded(sender.RecipientGone, 551, 0),
	}
}

// room is a room of 100 people on page0, at the platform's latency. Core is emulated: it
// copies nothing to who cannot be sent to, and nothing at all while the page is stopped.
type room struct {
	r       *rig
	people  []string
	rnd     *rand.Rand
	until   map[string]time.Time // who is left out
	stopped time.Time
	told    int // times that the page was stopped
}

func newRoom(r *rig, n int) *room {
	r.limits = func(string, message.Class) int { return 300 }
	r.latency = longTailed(rand.New(rand.NewPCG(1, 2)), 700*time.Millisecond, 1900*time.Millisecond)
	return &room{r: r, people: guests("u", n), rnd: rand.New(rand.NewPCG(3, 4)), until: make(map[string]time.Time)}
}

// write has somebody of the room write a message, which is an event of its own.
func (m *room) write(i int) {
	for _, e := range m.r.told() {
		switch {
		case e.Reason == message.FeedbackResumed && e.User == "":
			m.stopped = time.Time{}
		case e.Reason == message.FeedbackResumed:
			delete(m.until, e.User)
		case e.Reason == string(message.ReasonPageStopped):
			m.stopped = time.UnixMilli(e.Until)
			m.told++
		case e.Until > 0:
			m.until[e.User] = time.UnixMilli(e.Until)
		default:
			m.until[e.User] = time.Now().Add(24 * time.Hour) // gone
		}
	}
	if time.Now().Before(m.stopped) {
		return
	}
	writer := m.rnd.IntN(len(m.people))
	var to []string
	for k, p := range m.people {
		if k != writer && !time.Now().Before(m.until[p]) {
			to = append(to, p)
		}
	}
	m.r.event("page0", fmt.Sprint("m", i), message.ClassText, to...)
}

// waitsOf are those of the people who match, and the number of their messages that are
// neither sent nor in time to be.
func (m *room) waitsOf(match func(who string) bool) (waits []time.Duration, missing int) {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	for id, born := range m.r.born {
		if !match(id[strings.LastIndexByte(id, '/')+1:]) {
			continue
		}
		if at, ok := m.r.times[id]; ok {
			waits = append(waits, at.Sub(born))
		} else {
			missing++
		}
	}
	slices.Sort(waits)
	return waits, missing
}

// Some people of a room fail for good, in one way or another. The others are served as if
// nothing was: none of theirs is dead, and who fails is seldom called.
func TestSomeFailForGood(t *testing.T) {
	t.Parallel()
	length := 30 * time.Minute
	gaps := []time.Duration{2 * time.Second, 30 * time.Second, 2 * time.Minute}
	counts := []int{2, 3, 5, 10, 30}
	if testing.Short() {
		length, counts = 14*time.Minute, []int{3, 30}
	}
	play := func(t *testing.T, bad int, gap time.Duration, kind func(k int) sender.Result) (p99 time.Duration) {
		inBubble(t, 1, nil, func(t *testing.T, r *rig) {
			m := newRoom(r, 100)
			says := make(map[string]sender.Result)
			for k := range bad {
				says[m.people[(k*37+11)%100]] = kind(k)
			}
			normal := r.latency
			r.latency = func(o message.Outbound) time.Duration {
				if s, is := says[o.To]; is && s.Status == 0 {
					return 10 * time.Second
				} else if is && s.Outcome == sender.NotAllowed { // a refusal is quick
					return 50 * time.Millisecond
				}
				return normal(o)
			}
			r.script(func(o message.Outbound, _ int) sender.Result { return says[o.To] })
			start := time.Now()
			every(gap, length, m.write)
			r.sleep(5 * time.Minute)
			w, missing := m.waitsOf(func(who string) bool { _, is := says[who]; return !is })
			p99 = quantile(w, 0.99)
			if most := quantile(w, 1); most > 4*time.Second || missing > 0 {
				t.Errorf("the others: longest wait %v, p99 %v, %d missing; want at most 4 s and none", most, p99, missing)
			}
			for id, d := range r.dead() {
				if _, is := says[id[strings.LastIndexByte(id, '/')+1:]]; !is {
					t.Errorf("%s is dead as %s", id, d.Reason)
				}
			}
			if m.told > 0 {
				t.Errorf("core was told %d times that the page is stopped", m.told)
			}
			calls := make(map[string]int)
			for _, c := range r.callsOf("page0") {
				if _, is := says[c.out.To]; is && c.at.Sub(start) > 10*time.Minute {
					calls[c.out.To]++
				}
			}
			hours := (length - 5*time.Minute).Hours() // from the tenth to the end, and five minutes more
			for who, n := range calls {
				if float64(n) > max(2, 8*hours) {
					t.Errorf("%d calls to %s (%v) after the first ten minutes, want at most 8 an hour", n, who, says[who].Outcome)
				}
			}
			r.inversions = nil // who fails has a message in the retry queue
		})
		return p99
	}
	for _, gap := range gaps {
		t.Run(fmt.Sprint("an event every ", gap), func(t *testing.T) {
			t.Parallel()
			without := play(t, 0, gap, nil)
			kinds := answers()
			for _, bad := range counts {
				t.Run(fmt.Sprint(bad, " of 100"), func(t *testing.T) {
					most := without*12/10 + 100*time.Millisecond
					if p99 := play(t, bad, gap, func(k int) sender.Result { return kinds[k%len(kinds)] }); p99 > most {
						t.Errorf("all kinds: p99 of the others = %v, want at most %v", p99, most)
					}
					if p99 := play(t, bad, gap, func(int) sender.Result { return kinds[bad%5] }); p99 > most {
						t.Errorf("%v alone: p99 of the others = %v, want at most %v", kinds[bad%5], p99, most)
					}
				})
			}
		})
	}
}

// A few people of a small room are refused at once, as where a permission is missing, and the
// others accepted later: the page is never suspended, and nobody else waits.
func TestRefusedBesideAccepted(t *testing.T) {
	t.Parallel()
	for _, code := range []int{200, 10} {
		for _, refused := range [][]int{{3, 4}, {1, 6}, {6, 7}, {2, 3, 7}, {5, 6, 7}} {
			t.Run(fmt.Sprint(code, refused), func(t *testing.T) {
				t.Parallel()
				inBubble(t, 1, nil, func(t *testing.T, r *rig) {
					m := newRoom(r, 8)
					is := make(map[string]bool)
					for _, k := range refused {
						is[m.people[k]] = true
					}
					normal := r.latency
					r.latency = func(o message.Outbound) time.Duration {
						if is[o.To] {
							return 50 * time.Millisecond
						}
						return normal(o)
					}
					r.script(func(o message.Outbound, _ int) sender.Result {
						if is[o.To] {
							return sender.Result{Outcome: sender.NotAllowed, Status: 400, Code: code, Err: errors.New("scripted")}
						}
						return sender.Result{}
					})
					for i := range 150 {
						m.write(i)
						r.sleep(4 * time.Second)
						if n := r.only().suspended(); n > 0 {
							t.Fatalf("the page is suspended after %d events", i+1)
						}
					}
					w, missing := m.waitsOf(func(who string) bool { return !is[who] })
					if most := quantile(w, 1); most > 4*time.Second || missing > 0 {
						t.Errorf("the others: longest wait %v, %d missing; want at most 4 s and none", most, missing)
					}
					r.inversions = nil
				})
			})
		}
	}
}

// One event of twenty is refused for its content, whatever the code: its copies are dead,
// and say why. Nobody waits for that, no page is stopped and no person failing.
func TestEventAtFault(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		says   sender.Outcome
		code   int
		reason message.Reason
	}{
		{"blocked content", sender.BadMessage, 368, message.ReasonBadMessage},
		{"a block without more words", sender.PageStoppedForATime, 368, message.ReasonBadMessage},
		{"an attachment that fails", sender.Transient, 100, message.ReasonBadMessage},
		{"code 2", sender.Transient, 2, message.ReasonBadMessage},
	} {
		for _, people := range []int{4, 30} {
			t.Run(fmt.Sprint(row.name, " to ", people), func(t *testing.T) {
				t.Parallel()
				inBubble(t, 1, nil, func(t *testing.T, r *rig) {
					m := newRoom(r, people)
					bad := func(id string) bool {
						return strings.Contains(id, "0/m") && strings.HasSuffix(id[:max(0, strings.LastIndexByte(id, '/'))], "7")
					}
					r.script(func(o message.Outbound, _ int) sender.Result {
						if bad(strings.Split(o.ID, " ")[0]) {
							return sender.Result{Outcome: row.says, Status: 400, Code: row.code, Err: errors.New("scripted")}
						}
						return sender.Result{}
					})
					every(10*time.Second, 10*time.Minute, m.write) // each tenth is bad
					r.sleep(5 * time.Minute)
					dead := r.dead()
					for _, id := range r.published {
						if d, is := dead[id]; is != bad(id) || is && d.Reason != row.reason && d.Reason != message.ReasonExhausted || is && d.LastCode != fmt.Sprint(row.code) {
							t.Errorf("%s is dead: %v, as %s with code %s", id, is, d.Reason, d.LastCode)
						}
					}
					if told := r.told(); len(told) > 0 || m.told > 0 || len(m.until) > 0 {
						t.Errorf("core was told %+v, %d times that the page is stopped, and of %v; want nothing", told, m.told, m.until)
					}
					for id, at := range r.times {
						if w := at.Sub(r.born[id]); w > 4*time.Second+4*time.Second*time.Duration(r.attempts[id]-1) {
							t.Errorf("%s waited %v", id, w)
						}
					}
					r.inversions = nil
				})
			})
		}
	}
}

// Three pages hang at night, for three hours. Well pages are served as on any other night,
// and nothing is sent twice. In the first minutes, where the three are the only ones that were
// called, the API may be taken for sick until the first probe; later that hits one text at most.
func TestPagesHangAtNight(t *testing.T) {
	t.Parallel()
	events := 700
	if testing.Short() {
		events = 150
	}
	for _, replicas := range []int{2, 3} {
		for _, sick := range []int{0, 3} {
			t.Run(fmt.Sprint(replicas, " replicas, ", sick, " pages"), func(t *testing.T) {
				t.Parallel()
				inBubble(t, replicas, nil, func(t *testing.T, r *rig) {
					rnd := rand.New(rand.NewPCG(1, 2))
					normal := longTailed(rand.New(rand.NewPCG(1, 3)), 700*time.Millisecond, 1900*time.Millisecond)
					isSick := func(page string) bool { return strings.HasPrefix(page, "sick") }
					r.latency = func(o message.Outbound) time.Duration {
						if isSick(o.Page) {
							return 10 * time.Second
						}
						return normal(o)
					}
					r.script(func(o message.Outbound, _ int) sender.Result {
						if isSick(o.Page) {
							return timeout()
						}
						return sender.Result{}
					})
					length := time.Duration(events) * 15 * time.Second
					for k := range sick {
						go every(time.Duration(20+3*k)*time.Second, length, func(int) { r.text(fmt.Sprint("sick", k), guests("h", 3)...) })
					}
					start := time.Now()
					for time.Since(start) < length {
						r.sleep(time.Duration(5+rnd.IntN(20)) * time.Second)
						r.text(fmt.Sprint("page", rnd.IntN(3)), guests("g", 8)...)
					}
					r.sleep(time.Minute)
					for p := range 3 {
						slow := 0
						for id, at := range r.times {
							if !strings.HasPrefix(id, fmt.Sprintf("page%d/", p)) {
								continue
							}
							w := at.Sub(r.born[id])
							if w > 8*time.Second {
								t.Errorf("%s waited %v, want at most 8 s", id, w)
							}
							if w > 4*time.Second && r.born[id].After(start.Add(4*time.Minute)) {
								slow++
							}
						}
						if slow > 8 { // more than one text
							t.Errorf("%d copies of a well page waited for more than 4 s", slow)
						}
					}
					for id, n := range r.accepted {
						if n > 1 {
							t.Errorf("%s was sent %d times", id, n)
						}
					}
					r.inversions = nil
				})
			})
		}
	}
}

// The calls of one dispatcher hang for good, while the API answers its questions. Another
// one sends for its pages: they are silent once, and for seconds when it tries again.
func TestCallsHangForGood(t *testing.T) {
	t.Parallel()
	for name, sick := range map[string]Caller{"ten seconds": mute{}, "twenty seconds": deaf{}} {
		for _, pages := range []int{1, 2, 5} {
			if testing.Short() && pages == 2 {
				continue
			}
			t.Run(fmt.Sprint(name, ", ", pages, " pages"), func(t *testing.T) {
				t.Parallel()
				inBubble(t, 3, nil, func(t *testing.T, r *rig) {
					length := 10 * time.Minute
					if testing.Short() {
						length = 3 * time.Minute
					}
					list := r.peers(pages)
					for _, page := range list {
						go every(time.Second, length, func(int) { r.text(page, guests("u", 20)...) })
					}
					go every(200*time.Millisecond, length, func(int) { r.text("elsewhere", guests("u", 20)...) })
					r.sleep(5 * time.Second)
					hung := r.owner("page0")
					r.replicas[hung].inspect(func(e *engine) { e.Sender = sick })
					began := time.Now()
					r.sleep(length + time.Minute)
					for _, page := range list {
						var gaps []time.Duration
						last := began
						for _, c := range r.callsOf(page) {
							if c.at.After(began) && c.replica != hung {
								gaps = append(gaps, c.at.Sub(last))
								last = c.at
							}
						}
						slices.Sort(gaps)
						slices.Reverse(gaps)
						if len(gaps) < 2 || gaps[0] > 16*time.Second || gaps[1] > 6*time.Second {
							t.Errorf("%s was silent for %v, want at most 16 s once and 6 s then", page, gaps[:min(6, len(gaps))])
						}
					}
					missing := 0
					for _, id := range r.published {
						if r.accepted[id] == 0 {
							missing++
						}
					}
					if missing > 0 {
						t.Errorf("%d of %d messages did not arrive", missing, len(r.published))
					}
					r.inversions = nil // a message whose call hangs is sent by another
				})
			})
		}
	}
}

// A token is revoked: one text to one person stops the page, once the API has said the same
// to a question; and nothing is dead before the page was asked for five minutes.
func TestTokenIsRevoked(t *testing.T) {
	t.Parallel()
	for _, people := range []int{1, 2, 30} {
		t.Run(fmt.Sprint(people, " people"), func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, nil, func(t *testing.T, r *rig) {
				m := newRoom(r, people)
				r.script(func(o message.Outbound, _ int) sender.Result {
					return sender.Result{Outcome: sender.PageStopped, Status: 400, Code: 190, Err: errors.New("scripted")}
				})
				start := time.Now()
				r.event("page0", "first", message.ClassText, m.people...)
				r.sleep(8 * time.Second)
				if n := r.only().suspended(); n != 1 {
					t.Fatalf("%d pages are suspended after 8 s, want the one", n)
				}
				r.sleep(5*time.Minute - 20*time.Second)
				if n := len(r.dead()); n > 0 {
					t.Errorf("%d messages are dead before five minutes", n)
				}
				r.sleep(5 * time.Minute)
				if n := len(r.dead()); n != people {
					t.Errorf("%d messages are dead after ten minutes, want all %d", n, people)
				}
				if n := len(r.callsOf("page0")); n > 3*people+20 {
					t.Errorf("%d calls in %v", n, time.Since(start))
				}
			})
		})
	}
}
