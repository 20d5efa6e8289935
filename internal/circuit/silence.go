package circuit

import "time"

const (
	// silence is the time of calls in flight without any answer after which the API is
	// silent; silenceMany with at least manyCalls of them, silenceAgain right after a silence. They are to
	// silentPeople, and not of one event, which may hang for everybody.
	silence      = 5 * time.Second
	silenceMany  = 3 * time.Second
	silenceAgain = 4 * time.Second
	manyCalls    = 20
	silentPeople = 6
)

// Silent reports whether no call is answered any more, for so long that another replica
// may fare better. It looks at the calls that began after the last answered one. Calls
// to few people are no silence, nor are those of a page that is sick, nor probes: unless all
// count, because a silence went before and nothing was answered since.
func (s *Circuits) Silent(now time.Time, all bool) bool {
	calls, events, people, first := 0, 0, 0, now
	for _, p := range s.pages {
		if len(p.calls) == 0 || p.own[0].open && !all {
			continue
		}
		var of row
		for c := range p.calls {
			if probe, _ := s.Probes(c); c.began.After(s.answered) && !c.left && (all || !probe) {
				of.add(c.began, c)
			}
		}
		if of.n == 0 {
			continue
		}
		calls += of.n
		events += len(of.events)
		people += len(of.people)
		if of.began.Before(first) {
			first = of.began
		}
	}
	d := now.Sub(first)
	return (people >= silentPeople && events > 1 || all) && (d >= silence || all && d >= silenceAgain || d >= silenceMany && calls >= manyCalls)
}

// Leave has the calls of pages whose partition is given up tell nothing of a silence, and
// returns whether any of them is younger than a silence: its answer may still come.
func (s *Circuits) Leave(now time.Time, isGone func(page string) bool) (young bool) {
	for name, p := range s.pages {
		if len(p.calls) == 0 || !isGone(name) {
			continue
		}
		for c := range p.calls {
			c.left = true
			young = young || now.Sub(c.began) < silenceMany
		}
	}
	return young
}

// Unheard returns the time for which calls have been made and none was answered.
func (s *Circuits) Unheard(now time.Time) time.Duration {
	if s.unheard.IsZero() {
		return 0
	}
	return now.Sub(s.unheard)
}

// Heard notes that the API answers.
func (s *Circuits) Heard() { s.unheard = time.Time{} }
