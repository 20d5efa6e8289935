package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chatclub/internal/circuit"
	"chatclub/internal/message"
	"chatclub/internal/orders"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/sender"
)

// sick answers all messages to these recipients, page/name, with an error that
// says nothing.
func sick(who ...string) func(message.Outbound, int) sender.Result {
	return func(o message.Outbound, _ int) sender.Result {
		if slices.Contains(who, o.Page+"/"+o.To) {
			return sender.Result{Outcome: sender.Transient, Status: 400, Code: 10, Err: fmt.Errorf("scripted")}
		}
		return sender.Result{}
	}
}

// Once a message to a person used up its attempts, later ones are dead at once
// for five minutes, core is told until when, and then one call finds out.
func TestFailingRecipient(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(sick("page0/ann"))
		first := r.text("page0", "ann", "bob")
		r.sleep(4 * time.Minute) // three tries, then waits of 10, 10, 10 and 60 s
		if n := r.attempts[first[0]]; n != 8 {
			t.Fatalf("calls of the first message = %d, want 8", n)
		}
		told := r.told()
		if len(told) != 1 || told[0].Reason != message.FeedbackFailing || told[0].User != "ann" {
			t.Fatalf("told %+v, want that ann is failing", told)
		}
		until := time.UnixMilli(told[0].Until)
		fast := r.text("page0", "ann", "bob")
		r.sleep(time.Second)
		if n := r.attempts[fast[0]]; n != 0 {
			t.Errorf("calls of a message while ann is failing = %d, want none", n)
		}
		if d := r.dead()[fast[0]]; d.Reason != message.ReasonFailing {
			t.Errorf("it is dead for %q, want failing", d.Reason)
		}
		if told := r.told(); len(told) != 1 || !time.UnixMilli(told[0].Until).Equal(until) {
			t.Errorf("told %+v by a message that core made in vain, want until %v again", told, until)
		}
		r.sleep(time.Until(until) + time.Millisecond)
		probation := r.text("page0", "ann")
		r.sleep(time.Second)
		if n := r.attempts[probation[0]]; n != 1 {
			t.Errorf("calls of the message after that = %d, want 1", n)
		}
		told = r.told()
		if len(told) != 1 || time.Until(time.UnixMilli(told[0].Until)).Round(time.Second) < 9*time.Minute {
			t.Fatalf("told %+v, want that ann is failing for ten minutes more", told)
		}
		r.script(nil)
		r.sleep(time.Until(time.UnixMilli(told[0].Until)) + time.Millisecond)
		well := r.text("page0", "ann", "ann")
		r.sleep(time.Second)
		for _, id := range well {
			if r.accepted[id] != 1 {
				t.Errorf("%s was not accepted once ann is well", id)
			}
		}
		r.sleep(time.Second)
		if told := r.told(); len(told) != 1 || told[0].Reason != message.FeedbackResumed || told[0].User != "ann" {
			t.Errorf("told %+v, want that ann can be sent to again", told)
		}
		r.only().inspect(func(e *engine) {
			if _, _, n := e.circuits.Open(); n != 0 {
				t.Errorf("%d people are remembered, want none", n)
			}
		})
	})
}

// A message that goes round by a retry queue keeps those behind it behind it,
// those that were once joined with it, too.
func TestDelayedMessageIsNotOvertaken(t *testing.T) {
	t.Parallel()
	for range 8 { // chance decides which are joined
		inDelayed(t)
	}
}

func inDelayed(t *testing.T) {
	t.Helper()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		left := 5 // three tries here, two rounds
		r.script(func(o message.Outbound, _ int) sender.Result {
			if o.To == "ann" && left > 0 {
				left--
				return fail(sender.RecipientThrottled)
			}
			return sender.Result{}
		})
		every(time.Second, 40*time.Second, func(int) { r.text("page0", "ann", "bob") })
		r.sleep(5 * time.Minute)
		r.checkSentOnce()
		if w := r.waits("page0"); quantile(w, 0.4) > time.Second {
			t.Errorf("bob's messages waited %v", w)
		}
	})
}

// What one person waits for of a page that takes no calls goes round in its order.
func TestRoundKeepsOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settler.start()
	var want []string
	for i := range 20 {
		o := b.m.out
		o.ID, o.Time = fmt.Sprint(i), o.Time+int64(i)
		body, err := o.Encode()
		if err != nil {
			t.Fatal(err)
		}
		msg := queue.Message{Queue: b.s.queue, ID: o.ID, Body: body, Headers: map[string]string{message.HeaderRetry: "1"}}
		b.arrive(decode(queue.NewDelivery(b.Broker, new(channel), 1, msg, false), b.s, b.now))
		want = append(want, o.ID)
	}
	b.orders.Apply(orders.Order{Kind: orders.Pause, Page: "p", Time: b.now.UnixMilli(), Until: b.now.Add(time.Hour).UnixMilli()})
	b.outcomes.makeRoom(b.l, b.now)
	b.settler.End()
	b.settler.runs.Wait()
	b.settler.stop()
	b.Broker.(*memory.Broker).EndDelays() //nolint:forcetypeassert // the bench has made it
	var got []string
	for range len(want) + 1 - b.sickRoom() {
		got = append(got, (<-b.s.sub.Deliveries()).ID)
	}
	if want = want[len(want)-len(got):]; !slices.Equal(got, want) {
		t.Errorf("they come back as %v, want %v", got, want)
	}
}

// In a quiet deployment some people who cannot be sent to harm nobody else: not
// those of their page, nor of another, whose messages are all that there are. At
// most 100 calls an hour go to each of them.
func TestSickPeopleInAQuietDeployment(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		who  []string
	}{
		{"nobody", nil},
		{"one", []string{"page0/m-3"}},
		{"one on each of two pages", []string{"page0/m-3", "page1/m-5"}},
		{"two of one page", []string{"page0/m-3", "page0/m-7"}},
		{"four of three pages", []string{"page0/m-3", "page0/m-7", "page1/m-5", "page2/m-1"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 2, nil, func(t *testing.T, r *rig) {
				r.script(sick(row.who...))
				isSick := func(id string) bool {
					return slices.ContainsFunc(row.who, func(w string) bool { return strings.HasPrefix(id, w+"#") })
				}
				length := time.Hour
				if testing.Short() {
					length = 15 * time.Minute
				}
				began := time.Now()
				for i, gap := range []time.Duration{10 * time.Second, time.Minute, time.Minute} {
					go every(gap, length, func(int) { r.text(fmt.Sprint("page", i), guests("m", 20)...) })
				}
				r.sleep(length + 5*time.Minute)
				calls := map[string]int{}
				var waits []time.Duration
				for _, id := range r.published {
					if who, _, _ := strings.Cut(id, "#"); isSick(id) {
						calls[who] += r.attempts[id]
						continue
					}
					if r.accepted[id] != 1 {
						t.Fatalf("%s, which is well, was accepted %d times", id, r.accepted[id])
					}
					if r.born[id].Sub(began) > time.Second { // before, each page has a new owner
						waits = append(waits, r.times[id].Sub(r.born[id]))
					}
				}
				slices.Sort(waits)
				if p99, most := quantile(waits, 0.99), waits[len(waits)-1]; p99 > 25*time.Millisecond || most > time.Second {
					t.Errorf("the others waited up to %v, p99 %v, want 20 ms as with nobody sick", most, p99)
				}
				for who, n := range calls {
					if n > 100 || n < 8 {
						t.Errorf("%d calls to %s in an hour, want 8 to 100", n, who)
					}
				}
			})
		})
	}
}

// One page that answers 500 to all, or hangs, keeps no other one waiting, quiet
// or busy, also on the same partition.
func TestSickPage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		latency time.Duration
		result  sender.Result
	}{
		{"answers 500", 40 * time.Millisecond, fail(sender.Transient)},
		{"hangs", 10 * time.Second, timeout()},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(c *Config) { c.MaxAttempts = 3 }, func(t *testing.T, r *rig) {
				pages := r.peers(3)
				sickPage, quiet, busy := pages[0], pages[1], pages[2]
				r.latency = func(o message.Outbound) time.Duration {
					if o.Page == sickPage {
						return row.latency
					}
					return 40 * time.Millisecond
				}
				r.script(func(o message.Outbound, _ int) sender.Result {
					if o.Page == sickPage {
						return row.result
					}
					return sender.Result{}
				})
				go every(50*time.Millisecond, 2*time.Minute, func(i int) { r.text(sickPage, fmt.Sprint("s", i%100)) })
				go every(7*time.Second, 2*time.Minute, func(i int) { r.text(quiet, fmt.Sprint("q", i%20)) })
				go every(20*time.Millisecond, 2*time.Minute, func(i int) { r.text(busy, fmt.Sprint("b", i%200)) })
				r.sleep(2*time.Minute + 10*time.Second)
				for _, page := range []string{quiet, busy} {
					w := r.waits(page)
					sent := 0
					for _, id := range r.published {
						if strings.HasPrefix(id, page+"/") {
							sent++
						}
					}
					if len(w) != sent {
						t.Errorf("%s got %d of %d", page, len(w), sent)
					}
					if p99 := quantile(w, 0.99); p99 > 20*time.Millisecond+25*time.Millisecond { // which the first one waits
						t.Errorf("%s: p99 of the waits = %v, most %v", page, p99, quantile(w, 1))
					}
				}
				if n := r.mostAttempts(); n > 4 {
					t.Errorf("one message was sent %d times, want at most 4", n)
				}
				calls := len(r.callsOf(sickPage))
				if calls > 120 { // 20 a second until it is judged, 64 strangers, and probes
					t.Errorf("%d calls of the sick page in two minutes, want at most 120", calls)
				}
				// It is well again: what waited arrives, and nobody is failing.
				r.with(func() { r.answer, row.latency = nil, 40*time.Millisecond })
				r.sleep(10 * time.Minute)
				missing := 0
				for _, id := range r.published {
					if r.accepted[id] == 0 {
						missing++
					}
				}
				if dead := len(r.dead()); missing != dead || dead > 80 { // a call that fails has up to eight texts
					t.Errorf("%d messages did not arrive, %d are dead, want the same, at most 80", missing, dead)
				}
				for _, p := range r.replicas {
					p.inspect(func(e *engine) {
						failing := 0
						for _, to := range guests("s", 100) {
							o := &message.Outbound{Page: sickPage, To: strings.Replace(to, "-", "", 1), Class: message.ClassText}
							if hold, by, _ := e.circuits.Hold(e.Now(), o); hold == circuit.Dead && by == circuit.Person {
								failing++
							}
						}
						if failing > 3 { // those who used up three attempts before the page counted as sick
							t.Errorf("%d people are thought to be failing, whose page was sick", failing)
						}
					})
				}
			})
		})
	}
}

// An API that answers nobody for half an hour: no message is sent more often than
// it may be, and all the others arrive afterwards.
func TestAPIHangsForLong(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			t.Parallel()
			inBubble(t, replicas, nil, func(t *testing.T, r *rig) {
				down := true
				r.latency = func(message.Outbound) time.Duration {
					if down {
						return 10 * time.Second
					}
					return 40 * time.Millisecond
				}
				r.script(func(message.Outbound, int) sender.Result {
					if down {
						return timeout()
					}
					return sender.Result{}
				})
				go every(15*time.Second, 30*time.Minute, func(i int) {
					for p := range 3 {
						r.text(fmt.Sprint("page", p), guests(fmt.Sprint("u", i%4), 5)...)
					}
				})
				r.sleep(10 * time.Minute)
				noticed := 0
				for _, p := range r.replicas {
					if p.apiDown.Load() || p.silent.Load() {
						noticed++
					}
					p.inspect(func(e *engine) { // with a page of its own each
						sick, _, _ := e.circuits.Open()
						noticed += sick
					})
					if err := p.Ready(); err != nil {
						t.Errorf("Ready() while the API answers nobody = %v, want nil", err)
					}
				}
				if noticed == 0 {
					t.Error("no replica has noticed that the API answers nobody")
				}
				r.sleep(20 * time.Minute)
				r.with(func() { down = false })
				r.sleep(10 * time.Minute)
				if n := r.mostAttempts(); n > 9 {
					t.Errorf("one message was sent %d times, want at most 9", n)
				}
				dead := r.dead()
				missing := 0
				for _, id := range r.published {
					if _, is := dead[id]; r.accepted[id] == 0 && !is {
						missing++
					}
				}
				if missing > 0 || len(dead) > 60 {
					t.Errorf("%d of %d messages are missing and %d dead, want none and few", missing, len(r.published), len(dead))
				}
				for _, p := range r.replicas {
					if p.apiDown.Load() || p.silent.Load() {
						t.Error("a replica has not noticed that the API answers again")
					}
				}
			})
		})
	}
}

// An outage that is answered with errors uses up no message's attempts.
func TestOutageUsesUpNoAttempts(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(func(message.Outbound, int) sender.Result { return fail(sender.Transient) })
		for p := range 4 {
			r.text(fmt.Sprint("page", p), guests("u", 50)...)
		}
		r.sleep(20 * time.Minute)
		if !r.only().apiDown.Load() {
			t.Error("the outage is not noticed")
		}
		if err := r.only().Ready(); err != nil {
			t.Errorf("Ready() in an outage = %v, want nil", err)
		}
		calls := 0
		for p := range 4 {
			calls += len(r.callsOf(fmt.Sprint("page", p)))
		}
		if calls > 200+20*60/2 { // all at once, then a probe in some 2 to 5 s
			t.Errorf("calls in 20 minutes = %d, want at most 800", calls)
		}
		r.script(nil)
		r.sleep(5 * time.Minute)
		r.checkSentOnce()
		if r.only().apiDown.Load() {
			t.Error("the end of the outage is not noticed")
		}
		if err := r.broker.Close(); err != nil {
			t.Fatal(err)
		}
		if r.only().Ready() == nil {
			t.Error("Ready() without a broker = nil, want an error")
		}
	})
}

// While the API is down each probe is another's, so that one message that would
// never pass does not keep it from being seen that the API is well.
func TestProbesTakeTurns(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		down := true
		r.script(func(o message.Outbound, _ int) sender.Result {
			if down || o.To == "m-0" {
				return fail(sender.Transient)
			}
			return sender.Result{}
		})
		for p := range 2 {
			r.text(fmt.Sprint("page", p), guests("m", 20)...)
		}
		r.sleep(2 * time.Minute)
		r.with(func() { down = false })
		r.sleep(2 * time.Minute)
		missing := 0
		for _, id := range r.published {
			if !strings.Contains(id, "/m-0#") && r.accepted[id] == 0 {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("two minutes after an outage %d messages have not arrived", missing)
		}
	})
}

// A message with headers of somebody else that are nearly too long goes round by a retry queue
// as any other, and is dead in the end.
func TestLongHeadersGoRound(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, nil, func(t *testing.T, r *rig) {
		r.script(func(message.Outbound, int) sender.Result { return fail(sender.Transient) })
		o := r.copyOf("page0", message.ClassText, "ann")
		body, err := o.Encode()
		if err != nil {
			t.Fatal(err)
		}
		long := map[string]string{"other": strings.Repeat("x", queue.MaxHeaders-10)}
		if err := r.broker.Publish(t.Context(), queue.Message{Queue: r.top.OutboundOf("page0"), ID: o.ID, Body: body, Headers: long}); err != nil {
			t.Fatal(err)
		}
		r.sleep(10 * time.Minute)
		if dead := r.dead(); len(dead) != 1 {
			t.Errorf("dead = %v, want the message", dead)
		}
	})
}
