package trial

import (
	"testing"
	"testing/synctest"
	"time"

	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
)

// room is a room of ten in which something happens every second, with one member to whom
// calls fail.
func room(s *Sickness) Plan {
	plan := one()
	plan.Length, plan.Room, plan.Drain = 5*time.Second, 10, time.Second
	plan.Platform = map[string]any{"latency": "none"}
	plan.Streams = []Stream{{
		Group: Cold, Pages: Pages(1, 1), People: 10, Sickness: s,
		Segments: []load.Segment{{Rate: 9, For: plan.Length}},
	}}
	return plan
}

// Of whom nothing can be sent, the copies are judged by themselves, and the
// others arrive.
func TestSickPeopleAreAGroupOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, s := range []*Sickness{nil, {People: 1, Code: "2"}, {People: 2, Hang: time.Minute}, {Code: "2"}} {
		var found Found
		plan := room(s)
		plan.Finish = func(_ *report.Run, f Found) { found = f }
		var run report.Run
		synctest.Test(t, func(t *testing.T) { run = play(t.Context(), t, plan, nil) })
		cold, sick := found.Groups[Cold], found.Groups[Sick]
		if *run.Lost != 0 {
			t.Errorf("%+v: %d lost, want none", s, *run.Lost)
		}
		switch {
		case s == nil:
			if cold.Accepted != 45 || sick.Events != 0 {
				t.Errorf("all well: %d accepted, %d events of the sick; want 45, none", cold.Accepted, sick.Events)
			}
		case s.People == 0:
			if cold.Events != 0 || sick.Accepted != 0 || sick.Waiting.TotalCount() == 0 {
				t.Errorf("the page is sick: %d events of others, %d of %d accepted; want none and none of some", cold.Events, sick.Accepted, sick.Waiting.TotalCount())
			}
		default:
			if cold.Accepted == 0 || cold.Waiting.TotalCount() != 0 || sick.Accepted != 0 || sick.Waiting.TotalCount() == 0 {
				t.Errorf("%+v: others %d accepted, %d waiting; sick %d accepted, %d waiting; want all of the one and none of the other",
					s, cold.Accepted, cold.Waiting.TotalCount(), sick.Accepted, sick.Waiting.TotalCount())
			}
		}
	}
}

// A voice message counts against the limit of media, and a page that has more of
// these is judged by it.
func TestVoiceIsJudgedByItsLimit(t *testing.T) {
	t.Parallel()
	plan := one()
	plan.Length, plan.Media = 5*time.Second, 10
	plan.Platform = map[string]any{"latency": "none", "media": map[string]any{"per_second": 10}}
	plan.Streams = []Stream{
		{Group: Cold, Pages: Pages(1, 1), Segments: []load.Segment{{Rate: 100, For: plan.Length}}},
		{Group: Hot, Pages: Pages(1, 1), Audio: true, Segments: []load.Segment{{Rate: 40, For: plan.Length}}},
	}
	var run report.Run
	synctest.Test(t, func(t *testing.T) { run = play(t.Context(), t, plan, nil) })
	if run.QuotaUse == nil || *run.QuotaUse < .85 || *run.QuotaUse > 1.05 {
		t.Errorf("quota used = %s, want nearly all of ten a second, and not that of 300", shown(run.QuotaUse))
	}
	if got := run.Series[0].Limit[0]; got != 10 {
		t.Errorf("limit in the series = %g, want 10", got)
	}
}

// What only the entry outbound can do is refused elsewhere, before anything runs.
func TestSickAndVoiceNeedOutbound(t *testing.T) {
	t.Parallel()
	voice := one()
	voice.Streams[0].Audio = true
	for _, plan := range []Plan{room(&Sickness{Code: "2"}), voice} {
		if _, err := Run(t.Context(), Config{Plan: plan, Via: ViaWebhook}); err == nil {
			t.Error("Run() via webhook = nil, want an error")
		}
		if err := plan.Deployable(t.Context(), report.Own); err == nil {
			t.Error("Deployable() = nil, want an error")
		}
	}
}
