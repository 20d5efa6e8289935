package cases

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"chatclub/loadtest/report"
)

// The shares of the quota that are expected in saturation. The dispatcher asks
// for 98.5 %: over the few seconds of a run, calls that land just behind their second may
// take a percent of it away.
const (
	fullQuota  = .975
	voiceQuota = .95 // of a limit of ten: a call that lands just behind its second is a tenth of it
	movedQuota = .78 // a page that moves is silent for some two seconds at the platform's latency, and the next sender begins with what it learns
)

// mostSilent is the longest silence of a page, in seconds: when its dispatcher is
// stopped, that waits for its calls, the broker returns the rest, and the next one takes
// over. A calm page waits for less at most.
const (
	mostSilent = 3
	calmWait   = 1.2
)

// Pages: the hot one, and the first of those that are cold.
const (
	hotPage   = 1
	firstCold = 1001
)

// manyPeople are so many that hardly anybody gets a message before the answer to
// the one before: what a page's messages wait for is then not themselves.
const manyPeople = 20_000

// fullRoom is the usual number of members, and copies that of an event's copies.
const (
	fullRoom = 100
	copies   = fullRoom - 1
)

// Bounds that several cases have. Twice the cold pages' p99 is what README guarantees
// beside a backlog that lands at once, and 2 ms are those that the generator may be
// late by for its own reasons. In rooms a text mostly waits for the answer to the text
// before, to the same person, and so is as random as the platform's latency.
func full(least, refused float64) []report.Bound {
	return []report.Bound{report.AtLeast(report.Quota, least), report.AtMost(report.Refused, refused)}
}

func isolated(more ...report.Bound) []report.Bound {
	return append(more, report.AtMostTimes(report.ColdP99, 2, .002))
}

func beside(more ...report.Bound) []report.Bound {
	return append(more, report.AtMostTimes(report.ColdP99, 1.3, .25))
}

func hotWaits(p50, p99 float64) []report.Bound {
	list := []report.Bound{report.AtMost(report.Refused, .02), report.AtMost(report.HotP50, p50)}
	if p99 > 0 {
		list = append(list, report.AtMost(report.HotP99, p99))
	}
	return list
}

// All is the table of load tests.
func All() []Case {
	refused1, refused2 := report.AtMost(report.Refused, .01), report.AtMost(report.Refused, .02)
	complete, arrived := report.AtLeast(report.CompleteRooms, .99), report.AtLeast(report.Others, 1)
	saturating := Stream{Group: Hot, Pages: pages(hotPage, 1), Times: 3, Poisson: true} // a page with three times its limit to send
	seconds := func(n int) Setting { return Setting{Length: time.Duration(n) * time.Second} }
	others := Stream{Group: Cold, Pages: pages(firstCold, 1000), Rate: 200, Poisson: true, People: 100}
	someOthers := Stream{Group: Cold, Pages: pages(firstCold, 50), Rate: 100, Poisson: true, People: 100}
	texts := Stream{Group: Cold, Pages: pages(hotPage, 1), Rate: copies, People: fullRoom}
	voices := Stream{Group: Hot, Pages: pages(hotPage, 1), Rate: copies / 8., People: fullRoom, Audio: true} // 99 copies take 9.9 s at 10 a second
	atRest := Stream{Group: Cold, Pages: neighbour(strconv.Itoa(hotPage)), Rate: 32, People: 33}
	sizes := zipf(200, 18, 1.1)
	small := func(share float64) []Stream {
		return []Stream{{Group: Cold, Pages: pages(firstCold, 10), Times: share, InTurn: true, People: manyPeople}}
	}
	return []Case{
		{
			Name: "chatclub-room", Title: "A club of full rooms writes at the page's limit",
			Source:  "ChatClub's article: rooms of 100, 3 messages a second, and the first second at the limit",
			Webhook: true, Setting: Setting{Room: fullRoom, Drain: 15 * time.Second},
			Parts: []Part{{
				Streams: []Stream{{Group: Hot, Pages: pages(hotPage, 1), Times: .99, People: 2 * fullRoom}},
				InTime:  5 * time.Second, Unfull: true, Bounds: []report.Bound{refused2, complete},
			}},
		},
		{
			Name: "saturate", Title: "One page with more to send than its limit",
			Source: "README, guarantee of flow: the quota is used and hardly a call refused, at any number of dispatchers",
			Parts:  []Part{{Streams: []Stream{saturating}, Bounds: full(fullQuota, .01)}}, // refusals from the start on
		},
		{
			Name: "neighbour", Title: "A backlog of one page lands before many others",
			Source: "README, guarantee of isolation; a public project's hours of delay behind one throttled user",
			Parts: []Part{
				{Label: "without backlog", Baseline: true, Streams: []Stream{others}},
				{
					Streams: []Stream{others, {Group: Hot, Pages: pages(hotPage, 1), Burst: 30_000, From: .05, Backlog: true}}, // when the others flow
					Unfull:  true, Bounds: isolated(refused1),                                                                  // whoever joins texts has sent the backlog before the load ends
				},
			},
		},
		{
			Name: "zipf", Title: "Pages of very different size, the largest beyond their limits",
			Source:  "README, guarantee of isolation; sizes of pages by Zipf's law, as of most things that people choose",
			Setting: Setting{Limit: 50},
			Parts: []Part{
				{Label: "without the hot pages", Baseline: true, Streams: sizes[:2]},
				{Streams: sizes, Bounds: isolated(full(.93, .02)...)},
			},
		},
		{
			Name: "bursts", Title: "Something happens in several rooms of a page at once, every few seconds",
			Source:  "ChatClub's article: a message to a room is a hundred calls at once; other pages must not notice",
			Setting: Setting{Room: fullRoom, Drain: 15 * time.Second, Length: 24 * time.Second},
			Parts: []Part{{
				Streams: []Stream{
					{Group: Cold, Pages: pages(firstCold, 50), Rate: 2 * copies, Poisson: true, People: fullRoom},
					{Group: Hot, Pages: pages(hotPage, 1), Burst: 10 * copies, Every: 6 * time.Second, People: 4 * fullRoom},
				},
				InTime: 5 * time.Second, Unfull: true, Bounds: []report.Bound{refused1, complete},
			}},
		},
		{
			Name: "scale", Title: "Dispatchers join, leave and are killed while a page is saturated",
			Source: "README, guarantee of no coordination; what a static split cannot do", Setting: seconds(40),
			Parts: []Part{{
				Streams: []Stream{saturating}, Bounds: full(movedQuota, .02),
				Steps: []Step{{1. / 4, Join, 1}, {1. / 2, Leave, 1}, {3. / 4, Kill, .5}},
			}},
		},
		{
			Name: "limit-change", Title: "The platform halves a saturated page's limit, and raises it again",
			Source: "the limit is not published and may change; the dispatchers are not told", Setting: seconds(40),
			Parts: []Part{{
				Streams: []Stream{saturating}, Bounds: full(movedQuota, .03), // the way back is found step by step
				Steps: []Step{{1. / 4, Limit, .5}, {1. / 2, Limit, 1}},
			}},
		},
		{
			Name: "shared-limit", Title: "Another app takes a part of a saturated page's limit",
			Source: "other apps that send for a page share its limit", Setting: seconds(30),
			Parts: []Part{{Streams: []Stream{saturating}, Steps: []Step{{1. / 4, OtherApp, 1. / 3}}, Bounds: full(.88, .03)}},
		},
		{
			Name: "small-limits", Title: "Pages at nine tenths of a small limit, message after message",
			Source:  "whoever divides a limit, or asks for it, pays for that on pages that stay below it",
			Setting: Setting{Limit: 30},
			Parts: []Part{
				{Label: "a tenth of it", Baseline: true, Streams: small(.09)},
				{Streams: small(.9), Bounds: isolated(refused1)},
			},
		},
		{
			Name: "lively-room", Title: "One room of 100 in which something happens one to ten times a second",
			Source:  "README, a room keeps up: at the platform's latency an answer takes longer than the next event",
			Setting: Setting{Room: fullRoom, Drain: 15 * time.Second},
			Parts:   []Part{lively(1, .6, 2.5), lively(2, .6, 2.5), lively(5, .6, 2.5), lively(10, 2, 6)},
		},
		{
			Name: "ten-rooms", Title: "Ten rooms of one page with three times its limit to send",
			Source:  "README, a room keeps up: texts that had to wait for the same person go out as one message",
			Setting: Setting{Room: fullRoom, Length: 30 * time.Second},
			Parts: []Part{{
				Streams: []Stream{{Group: Hot, Pages: pages(hotPage, 1), Times: 3, People: 10 * fullRoom}},
				Bounds:  append(hotWaits(2.5, 0), report.AtLeast(report.Quota, fullQuota)),
			}},
		},
		{
			Name: "voice", Title: "Voice messages beyond their own limit, in a room that also writes",
			Source:  "Messenger's documents: 10 calls a second and page with audio or video, beside 300 with text",
			Setting: Setting{Room: fullRoom, Length: 48 * time.Second},
			Parts: []Part{
				{Label: "texts alone", Baseline: true, Streams: []Stream{texts}},
				{Streams: []Stream{texts, voices}, Media: 10, Bounds: beside(full(voiceQuota, .02)...)},
			},
		},
		{
			Name: "sick-member", Title: "One member of a busy room cannot be sent to",
			Source:  "README, guarantee of isolation: a person who cannot be sent to delays no other person",
			Setting: Setting{Room: fullRoom, Length: 30 * time.Second, Drain: 5 * time.Second},
			Parts: illnesses(beside(refused2, arrived), func(s *Sickness) []Stream {
				if s != nil {
					s.People = 1
				}
				return []Stream{{Group: Cold, Pages: pages(hotPage, 1), Rate: copies, People: fullRoom, Ill: s}}
			}),
		},
		{
			Name: "sick-page", Title: "Every call of one page fails; other pages must not notice",
			Source:  "README, guarantee of isolation: a page that is sick delays no other page",
			Setting: Setting{Length: 30 * time.Second, Drain: 5 * time.Second},
			Parts: illnesses(isolated(refused2, arrived), func(s *Sickness) []Stream {
				return []Stream{
					{Group: Sick, Pages: pages(hotPage, 1), Rate: 20, People: manyPeople, Ill: s},
					{Group: Cold, Pages: pages(firstCold, 50), Rate: 50. / 7, People: manyPeople}, // each every 7 s
					{Group: Cold, Pages: pages(firstCold+50, 1), Rate: 100, People: manyPeople},
				}
			}),
		},
		{
			Name: "lane-neighbour", Title: "A page in excess beside one at rest, in the same partition",
			Source:  "README, guarantee of isolation: pages of one partition share its queue and its sender",
			Setting: Setting{Room: 33, Length: 30 * time.Second},
			Parts: []Part{
				{Label: "without the page in excess", Baseline: true, Streams: []Stream{atRest}},
				{Streams: []Stream{atRest, saturating}, Bounds: beside(full(fullQuota, .02)...)},
			},
		},
		{
			Name: "rolling-restart", Title: "Every dispatcher is restarted, one after another, under load",
			Source:  "README, a clean stop: nothing is lost and nothing doubled, as in every rollout of a new version",
			Setting: seconds(80), // a restart each 10 s, as in deploy/kubernetes
			Parts: []Part{{
				Streams: []Stream{someOthers, saturating}, Steps: []Step{{1. / 4, Restart, 1}},
				Bounds: append(full(movedQuota, .02), report.AtMost(report.Silence, mostSilent), report.AtMost(report.ColdP99, calmWait)),
			}},
		},
		{
			Name: "aws-overload", Title: "Offered load from half to ten times the capacity in steps, and back to once",
			Source:  "AWS Builders' Library, Using load shedding to avoid overload: goodput must stay flat and recover",
			Setting: Setting{Limit: 100, Length: 49 * time.Second},
			Parts:   []Part{overload()},
		},
	}
}

// zipf splits n pages by Zipf's law, whose demand together is so many limits. Cold are
// those below half of theirs, which hardly ever wait by themselves, and hot, which
// come last, those above 1.2 times. Pages near the limit belong to neither: whether
// they are hot is a matter of luck.
func zipf(n int, limits, exponent float64) []Stream {
	total := 0.
	for i := range n {
		total += math.Pow(float64(i+1), -exponent)
	}
	list := []Stream{{Group: Cold}, {Group: "near the limit"}, {Group: Hot}}
	for i := range n {
		own := limits * math.Pow(float64(i+1), -exponent) / total
		at := 1
		switch {
		case own > 1.2:
			at = 2
		case own < .5:
			at = 0
		}
		list[at].Pages = append(list[at].Pages, Page{strconv.Itoa(hotPage + i), own})
	}
	for i := range list {
		list[i].Times, list[i].Poisson, list[i].People = 1, true, 200
	}
	return list
}

// lively is a room with so many events a second. At ten there is 3.3 times the limit of
// 300 to send: only joined texts pass.
func lively(events, p50, p99 float64) Part {
	return Part{
		Label: fmt.Sprintf("%g events/s", events), Unfull: true, Bounds: hotWaits(p50, p99),
		Streams: []Stream{{Group: Hot, Pages: pages(hotPage, 1), Rate: events * copies, People: fullRoom}},
	}
}

// illnesses are the parts of a case about something sick: nothing is, and each way of
// being so. A code 2 is Messenger's "unexpected error", with HTTP 500.
func illnesses(bounds []report.Bound, streams func(*Sickness) []Stream) []Part {
	return []Part{
		{Label: "all are well", Baseline: true, Streams: streams(nil)},
		{Label: "calls are answered 500", Streams: streams(&Sickness{Code: "2"}), Bounds: bounds},
		{Label: "calls hang", Streams: streams(&Sickness{Hang: time.Minute}), Bounds: bounds}, // longer than any sensible client waits
	}
}

// overload steps through multiples of the capacity; the last is the way back. More
// than the capacity cannot pass. Nine tenths of it must, eight at exactly the capacity,
// where random arrivals queue, and half on the way back: the backlog of ten times the
// load ends within that step.
func overload() Part {
	const age = 3 * time.Second // up to which a message is worth sending
	p := Part{InTime: age, MessageTTL: age}
	times := []float64{.5, 1, 2, 4, 7, 10, 1}
	n := float64(len(times))
	for i, x := range times {
		least := .9 * min(x, .98)
		switch i {
		case 1:
			least = .8
		case len(times) - 1:
			least = .5
		}
		name := fmt.Sprintf("step %d, %g ×", i+1, x)
		p.Streams = append(p.Streams, Stream{Group: name, Pages: pages(hotPage, 1), Times: x, From: float64(i) / n, To: float64(i+1) / n, Poisson: true})
		p.Bounds = append(p.Bounds, report.AtLeast(report.Goodput+report.Figure(": "+name), least))
	}
	return p
}
