package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"chatclub/internal/message"
)

// The kinds of faults that excuse something. An event may be excused by those of its own page.
const (
	// apiKinds are those by which a message may die, or a person's copies be left out.
	apiKinds   = "apiSilent api500 apiReset apiAmbiguous apiSlow page500 pageHangs personFails dispHang dispFreeze dispSlow token restricted page613 personThrottled"
	tokenKinds = "token restricted"
	// doublesKinds are those after which a message may come twice.
	doublesKinds = "dispKill dispCut dispSilent dispFreeze dispHang coreKill coreCut coreSilent brokerSilent brokerRestart apiSilent apiAmbiguous apiSlow apiReset pageHangs dispSlow hookCut hookSilent slowQueue storeSlow storeAway alarm refuses"
	// softKinds are those that cost no order.
	softKinds = "dispStart dispStop coreStart coreStop limit orderLimit orderPause"
	// queueingKinds are those that cost order only beyond the 32 messages that wait behind one
	// in a retry queue. Where an event fails for several people, nobody waits for it.
	queueingKinds = softKinds + " page613 personFails personThrottled"
	waitBehind    = 32
	// lateKinds are those while which an order comes late.
	lateKinds = "dispSilent dispCut dispFreeze brokerSilent brokerRestart alarm refuses"
)

func hasAny(kinds []string, names string) bool {
	return slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(strings.Fields(names), k) })
}

func hasOnly(kinds []string, names string) bool {
	return !slices.ContainsFunc(kinds, func(k string) bool { return !slices.Contains(strings.Fields(names), k) })
}

// touching returns the kinds of the faults that a page had in a time.
func (w *world) touching(page string, from, to time.Duration) (kinds []string) {
	for _, x := range w.windows {
		if (x.page == "" || x.page == page) && x.from <= to && x.to >= from {
			kinds = append(kinds, x.kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// check judges at a time when all is healed and drained.
func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.now()
	for id, f := range w.fates {
		if !strings.Contains(id, "order/") && (f.page != "" || f.dead != "") {
			w.judgeLocked(id, f, at)
		}
	}
	w.checkPausesLocked()
	texts := make(map[string]*text)
	for _, x := range w.texts {
		texts[x.page+"/"+x.mid] = x
		if x.stable {
			w.checkCopiesLocked(x)
		}
	}
	for key, ids := range w.order {
		if strings.HasSuffix(key, "/text") {
			w.checkOrderLocked(ids, texts)
		}
	}
}

// judgeLocked wants a message to have arrived, once, or to be dead for a true reason.
func (w *world) judgeLocked(id string, f *fate, at time.Duration) {
	since, before := w.touching(f.page, f.published-time.Second, at), w.touching(f.page, 0, at)
	switch {
	case f.times == 0 && f.dead == "":
		w.failLocked("LOST", id, "published at %.3f; faults since %v", f.published.Seconds(), since)
	case f.dead != "" && !isTrue(f.dead, before):
		w.failLocked("DEAD", id, "%s at %.3f; faults of its page %v", f.dead, f.deadAt.Seconds(), before)
	case f.times > 1:
		if near := w.touching(f.page, f.published-30*time.Second, f.first+time.Minute); !hasAny(near, doublesKinds) {
			w.failLocked("DOUBLED", id, "came %d times, first at %.3f; faults %v", f.times, f.first.Seconds(), near)
		}
	case f.times > 0 && f.dead != "" && f.dead != message.ReasonAmbiguous && !hasAny(since, doublesKinds):
		w.failLocked("BOTH", id, "accepted at %.3f, and dead: %s at %.3f; faults %v", f.first.Seconds(), f.dead, f.deadAt.Seconds(), since)
	}
}

// isTrue reports whether the faults of a page can be the reason of a death.
func isTrue(why message.Reason, kinds []string) bool {
	switch why {
	case message.ReasonPageStopped:
		return hasAny(kinds, tokenKinds)
	case message.ReasonExhausted, message.ReasonFailing:
		return hasAny(kinds, apiKinds)
	case message.ReasonAmbiguous:
		return hasAny(kinds, "apiAmbiguous")
	default: // nobody was gone or wrote nonsense, and nothing is an hour old
		return false
	}
}

// checkPausesLocked: nothing is sent for a page that is paused by order.
func (w *world) checkPausesLocked() {
	for _, c := range w.calls {
		for _, x := range w.pauses {
			if x.page != c.queue || c.at < x.from+5*time.Second || c.at > x.to-10*time.Millisecond {
				continue
			}
			if k := w.touching(x.page, x.from-5*time.Second, c.at); !hasAny(k, lateKinds) {
				w.failLocked("SENT WHILE PAUSED", c.id, "at %.3f, paused %.3f to %.3f; faults %v", c.at.Seconds(), x.from.Seconds(), x.to.Seconds(), k)
			}
		}
	}
}

const (
	calm = 90 * time.Second // after the last fault of a page: what was put back has come
	soon = 30 * time.Second // the longest way of a copy then
)

// checkCopiesLocked: a text of a room whose members stay has a copy for each, and is quick where
// nothing has failed for a while.
func (w *world) checkCopiesLocked(x *text) {
	for _, to := range w.people[x.page] {
		if to == x.user {
			continue
		}
		id := message.CopyID(x.page, x.mid, to, 0)
		f := w.fates[id]
		if f == nil {
			if kinds := w.touching(x.page, 0, x.answered); !hasAny(kinds, apiKinds) {
				w.failLocked("NEVER COPIED", id, "answered at %.3f; faults before %v", x.answered.Seconds(), kinds)
			}
			continue
		}
		end := f.first
		if f.times == 0 {
			end = f.deadAt
		}
		wait := end - x.answered
		if wait > soon && wait > w.backlogLocked(x.page, to, x.answered) && !w.mayStandLocked(x.page, x.answered) && len(w.touching(x.page, x.answered-calm, x.answered+soon)) == 0 {
			w.failLocked("SLOW", id, "waited %v, answered at %.3f, without a fault in the %v before", wait, x.answered.Seconds(), calm)
		}
	}
}

// backlogLocked returns twice the time that the page's limit, and the person's, need for what waits.
func (w *world) backlogLocked(page, to string, at time.Duration) time.Duration {
	ofPage, ofPerson := 0.0, 0.0
	for id, f := range w.fates {
		if f.page == page && f.published <= at+time.Second && (f.times == 0 || f.first > at) {
			if ofPage++; strings.HasSuffix(id, "/"+to) {
				ofPerson++
			}
		}
	}
	need := ofPage / float64(w.limit)
	if w.recipient > 0 {
		need = max(need, ofPerson/w.recipient)
	}
	return soon + time.Duration(2*need*float64(time.Second))
}

// mayStandLocked reports whether the broker may deliver a page's partition to a consumer that is gone.
func (w *world) mayStandLocked(page string, at time.Duration) bool {
	return w.keepsDead && hasAny(w.touching(page, 0, at), "dispKill dispCut dispSilent dispFreeze coreKill coreCut coreSilent brokerRestart")
}

// checkOrderLocked: a person gets texts in the order in which they were written, where one was posted
// after the other was taken.
func (w *world) checkOrderLocked(ids []string, texts map[string]*text) {
	latest, of := 0, ""
	for _, id := range ids {
		part := strings.Split(id, "/")
		if len(part) != 3 {
			continue
		}
		x := texts[part[0]+"/"+part[1]]
		if x == nil || !x.stable {
			continue
		}
		if x.ended < latest {
			kinds := w.touching(x.page, x.posted-calm, w.fates[id].first)
			if hasOnly(kinds, softKinds) || hasOnly(kinds, queueingKinds) && w.waitingLocked(ids, id) < waitBehind {
				w.failLocked("ORDER", id, "posted %.3f, came %.3f, behind %s, which came %.3f; faults %v", x.posted.Seconds(), w.fates[id].first.Seconds(), of, w.fates[of].first.Seconds(), kinds)
			}
		}
		if x.begun > latest {
			latest, of = x.begun, id
		}
	}
}

// waitingLocked returns how many of a person's texts had been published before this one, and not
// arrived then.
func (w *world) waitingLocked(ids []string, id string) (n int) {
	at := w.fates[id].published
	for _, o := range ids {
		if f := w.fates[o]; f.published < at && f.first > at {
			n++
		}
	}
	return n
}

// checkRound: the texts from a place on have come to everybody.
func (w *world) checkRound(from int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.texts[from:] {
		for _, to := range w.people[x.page] {
			id := message.CopyID(x.page, x.mid, to, 0)
			if f := w.fates[id]; to != x.user && (f == nil || f.times == 0) {
				w.failLocked("STUCK", id, "of the last round has not arrived; it was copied: %v", f != nil)
			}
		}
	}
}

// owners returns who is delivered the messages of each single-active queue.
func (w *world) owners() map[string]string {
	list := make(map[string]string)
	for _, name := range w.base.Queues() {
		active := w.base.Active(name)
		for _, p := range w.programs {
			if active != nil && p.has(active) {
				list[name] = p.name
			}
		}
	}
	return list
}

// checkEmpty: nothing is left on a queue.
func (w *world) checkEmpty(owners map[string]string) {
	for _, name := range w.base.Queues() {
		if name == w.top.Dead() || name == w.top.Orders() {
			continue
		}
		if info, err := w.base.Inspect(context.Background(), name); err != nil || info.Ready > 0 {
			w.fail("LEFT", "", "%d messages on %s, which %s consumed; %v", info.Ready, name, owners[name], err)
		}
	}
	if n := w.base.Delayed(); n > 0 {
		w.fail("LEFT", "", "%d messages with a delay", n)
	}
}

// checkExplained: every wait had a reason.
func (w *world) checkExplained() {
	for _, p := range w.programs {
		all, err := p.reg.Gather()
		if err != nil {
			w.fail("METRICS", "", "%v", err)
		}
		for _, m := range all {
			for _, c := range m.GetMetric() {
				if strings.HasSuffix(m.GetName(), "_unexplained_total") && c.GetCounter().GetValue() > 0 {
					w.fail("UNEXPLAINED", "", "%s: %v waits", p.name, c.GetCounter().GetValue())
				}
			}
		}
	}
}

// isDrained reports whether each message has arrived or is dead, and no queue has any.
func (w *world) isDrained() bool {
	for _, name := range w.base.Queues() {
		if name == w.top.Dead() || name == w.top.Orders() {
			continue
		}
		if info, err := w.base.Inspect(context.Background(), name); err != nil || info.Ready > 0 {
			return false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, f := range w.fates {
		if f.times == 0 && f.dead == "" && !strings.Contains(id, "order/") {
			return false
		}
	}
	return w.base.Delayed() == 0
}

func (w *world) anyDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.fates {
		if f.dead != "" {
			return true
		}
	}
	return false
}
