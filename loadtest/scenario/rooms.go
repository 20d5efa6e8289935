package scenario

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"chatclub/loadtest/load"
	"chatclub/loadtest/report"
	"chatclub/loadtest/situation"
	"chatclub/loadtest/trial"
)

// fullRoom is how many members a room has where nothing is said.
const fullRoom = 100

// needsRoom wants a scenario about rooms to have them.
func needsRoom(c Common) error {
	if c.Room == 0 {
		return errors.New("-room: 0 must be 2 to 100: this scenario is about rooms")
	}
	return nil
}

// waits expects the copies' median and 99th percentile to be at most so much.
func waits(r *report.Run, p50, p99 time.Duration) []report.Expectation {
	list := []report.Expectation{atMost(r, "hot p50", r.HotP50MS, ms(p50), " ms")}
	if p99 > 0 {
		list = append(list, atMost(r, "hot p99", r.HotP99MS, ms(p99), " ms"))
	}
	return list
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func livelyRoom() Scenario {
	return Scenario{
		Name: "lively-room", Title: "One room of 100 in which something happens one to ten times a second",
		Source:   "README, a room keeps up: at the platform's latency an answer takes longer than the next event",
		unused:   []string{"warm"},
		defaults: Common{Room: fullRoom, Drain: 15 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			events := fs.Float64("events", 0, "events a second; 0: 1, 2, 5 and 10, one after another")
			return func(c Common) (Set, error) {
				if err := errors.Join(needsRoom(c), between("events", *events, 0, 1000)); err != nil {
					return Set{}, err
				}
				rooms := situation.LivelyRooms()
				if *events > 0 {
					rooms = []situation.LivelyRoom{{PerSecond: *events}}
				}
				var parts []Part
				for _, room := range rooms {
					parts = append(parts, Part{Label: fmt.Sprintf("%g events/s", room.PerSecond), Plan: trial.Plan{
						Streams: []trial.Stream{{
							Group: trial.Hot, Pages: trial.Pages(hotPage, 1), People: c.Room,
							Segments: []load.Segment{{Rate: room.PerSecond * float64(c.Room-1), For: c.Duration}},
						}},
						Finish: noQuota, // most of these are below the limit
					}})
				}
				return Set{Parts: parts, Expect: func(runs []report.Run) []report.Expectation {
					var list []report.Expectation
					for i := range runs {
						r := &runs[i]
						list = append(list, sound(r, 0)...)
						list = append(list, refusals(r, .02))
						if p50, p99 := situation.LivelyWaits(rooms[i].PerSecond); p50 > 0 {
							list = append(list, waits(r, p50, p99)...)
						}
					}
					return list
				}}, nil
			}
		},
	}
}

func tenRooms() Scenario {
	return Scenario{
		Name: "ten-rooms", Title: "Ten rooms of one page with three times its limit to send",
		Source:   "README, a room keeps up: texts that had to wait for the same person go out as one message",
		defaults: Common{Room: fullRoom, Duration: 30 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			times := timesFlag(fs)
			rooms := fs.Int("rooms", situation.Rooms, "rooms on the page")
			return func(c Common) (Set, error) {
				if err := errors.Join(needsRoom(c), checkTimes(*times), between("rooms", float64(*rooms), 1, 1000)); err != nil {
					return Set{}, err
				}
				return Set{
					Parts: []Part{{Plan: trial.Plan{Streams: []trial.Stream{{
						Group: trial.Hot, Pages: trial.Pages(hotPage, 1), People: *rooms * c.Room,
						Segments: []load.Segment{{Rate: *times * float64(c.Limit), For: c.Duration}},
					}}}}},
					Expect: each(0, func(r *report.Run) []report.Expectation {
						return append([]report.Expectation{quota(r, fullQuota), refusals(r, .02)}, waits(r, situation.RoomsP50, 0)...)
					}),
				}, nil
			}
		},
	}
}

func voice() Scenario {
	return Scenario{
		Name: "voice", Title: "Voice messages beyond their own limit, in a room that also writes",
		Source:   "Messenger's documents: 10 calls a second and page with audio or video, beside 300 with text",
		unused:   []string{"via"},
		defaults: Common{Room: fullRoom, Duration: 48 * time.Second},
		define: func(fs *flag.FlagSet) func(Common) (Set, error) {
			limit := fs.Int("media-limit", 10, "calls with audio a second and page that the platform takes, as told to the dispatchers")
			every := fs.Duration("every", situation.VoiceEvery, "between two voice messages")
			return func(c Common) (Set, error) {
				if err := errors.Join(needsRoom(c), between("media-limit", float64(*limit), 1, 1e6), between("every", every.Seconds(), .01, c.Duration.Seconds())); err != nil {
					return Set{}, err
				}
				copies := float64(c.Room - 1)
				if offered := copies / every.Seconds(); offered < 1.2*float64(*limit) {
					return Set{}, fmt.Errorf("-every: %.3g copies a second do not saturate a -media-limit of %d: 1.2 times it are needed", offered, *limit)
				}
				texts := trial.Stream{
					Group: trial.Cold, Pages: trial.Pages(hotPage, 1), People: c.Room,
					Segments: []load.Segment{{Rate: copies, For: c.Duration}},
				}
				voices := texts
				voices.Group, voices.Audio, voices.Segments = trial.Hot, true, []load.Segment{{Rate: copies / every.Seconds(), For: c.Duration}}
				platform := map[string]any{"media": map[string]any{"per_second": *limit, "algorithm": c.Algorithm}}
				return Set{
					Parts: []Part{
						{Label: "texts alone", Plan: trial.Plan{Streams: []trial.Stream{texts}}, Baseline: true},
						{Plan: trial.Plan{Streams: []trial.Stream{texts, voices}, Media: float64(*limit), Platform: platform}},
					},
					Expect: pair(beside, "the voice messages", func(r *report.Run) []report.Expectation {
						return []report.Expectation{quota(r, voiceQuota), refusals(r, .02)}
					}),
				}, nil
			}
		},
	}
}

// voiceQuota is what is expected of a limit of ten: a call that lands just
// behind its second is a tenth of that second's.
const voiceQuota = .95

// beside expects the texts of a room to be hardly slower than without what is
// beside them. Their waits are mostly for the answer to the text before, to the
// same person, and so as random as the platform's latency.
func beside(quiet, loud *report.Run, without string) []report.Expectation {
	if quiet.ColdP99MS == nil {
		return nil
	}
	const times, more = 1.3, 250
	e := atMost(loud, "cold p99", loud.ColdP99MS, times**quiet.ColdP99MS+more, " ms")
	e.Text += fmt.Sprintf(", which is %g times the %.4g ms without %s, and %d ms", times, *quiet.ColdP99MS, without, more)
	return []report.Expectation{ifSound(quiet, e)}
}
