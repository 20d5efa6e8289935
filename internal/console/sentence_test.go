package console

import (
	"testing"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
	"chatclub/internal/replicas"
)

// shown is a page of a state, with the history of its last second.
func shown(name, state string, asked, sent, refused, waiting int, delay float64) Page {
	return Page{
		ID: name, Name: name, State: state, Limit: 300, Asked: asked, Sent: sent, Refused: refused, Waiting: waiting, Wait: float64(waiting) / 300,
		History: History{Sent: []int{sent}, Delay: []int{int(1000 * delay)}},
	}
}

// counted is what RabbitMQ says, with so many messages on outbound queues.
func counted(h *replicas.BrokerHealth, outbound int) *replicas.BrokerHealth {
	h.Kinds = []queue.Kind{{Name: "inbound"}, {Name: "outbound", Ready: outbound}, {Name: "lanes"}, {Name: "retry"}, {Name: "dead"}}
	return h
}

func TestSentence(t *testing.T) {
	t.Parallel()
	running := []Dispatcher{{Name: "a", State: "running"}}
	lost := []Dispatcher{{Name: "a", State: "running"}, {Name: "b", State: "lost"}}
	calm := shown("Chess", "free", 41, 41, 0, 0, 0.003)
	stopped := shown("Jazz", "suspended", 0, 0, 0, 0, 0)
	stopped.Why = "190"
	paused := shown("Food", "paused", 0, 0, 0, 0, 0)
	paused.Why = "on the page"
	throttled := shown("Jazz", "excess", 29, 0, 0, 1204, 0)
	throttled.Reason, throttled.Waits = dispatch.WaitsForApp, dispatch.WaitsForApp.Sentence(time.Time{})
	short := shown("Jazz", "excess", 900, 298, 0, 1204, 0)
	short.Reason, short.Waits = dispatch.WaitsForCalls, dispatch.WaitsForCalls.Sentence(time.Time{})
	for _, row := range []struct {
		name  string
		state State
		want  Sentence
	}{
		{"at the start", State{}, Sentence{"Starting …", Calm}},
		{"silence", State{Dispatchers: running, Pages: []Page{shown("Jazz", "free", 0, 0, 0, 0, 0)}}, Sentence{"Nobody writes.", Calm}},
		{
			"calm",
			State{Dispatchers: running, Pages: []Page{calm, shown("Jazz", "free", 1000, 1000, 0, 0, 0.003)}},
			Sentence{"All get what they ask for: 1,041 calls a second, each copy within 3 ms.", Calm},
		},
		{
			"one in excess",
			State{Dispatchers: running, Pages: []Page{shown("Jazz", "excess", 900, 298, 0, 1204, 2), calm}},
			Sentence{"Jazz asks for 900/s and may have 300: 1,204 wait, 4.0 s. Everybody else: 3 ms.", Excess},
		},
		{
			"catching up",
			State{Dispatchers: running, Pages: []Page{shown("Jazz", "excess", 29, 298, 0, 9000, 2), calm}},
			Sentence{"Jazz may have 300/s, and catches up: 9,000 still wait, 30 s. Everybody else: 3 ms.", Excess},
		},
		{
			"caught up, alone",
			State{Dispatchers: running, Pages: []Page{shown("Jazz", "excess", 29, 29, 0, 0, 0)}},
			Sentence{"Jazz has caught up.", Excess},
		},
		{
			"several",
			State{Dispatchers: running, Pages: []Page{
				shown("Chess", "excess", 400, 298, 0, 300, 1), shown("Jazz", "excess", 900, 298, 0, 900, 2), shown("Food", "excess", 900, 298, 0, 301, 2),
			}},
			Sentence{"Jazz asks for 900/s and may have 300: 900 wait, 3.0 s. 2 pages are in excess too.", Excess},
		},
		{
			"a dispatcher is lost",
			State{Dispatchers: lost, Pages: []Page{calm}},
			Sentence{"All get what they ask for: 41 calls a second, each copy within 3 ms. 1 dispatcher does not answer.", Sick},
		},
		{
			"no dispatcher, and nobody counts",
			State{Dispatchers: lost[1:], Pages: []Page{shown("Jazz", "free", 0, 0, 0, 0, 0)}},
			Sentence{"No dispatcher runs: how many messages wait is not known.", Sick},
		},
		{
			"no dispatcher, and RabbitMQ counts",
			State{Dispatchers: lost[1:], Broker: counted(&replicas.BrokerHealth{}, 1204)},
			Sentence{"No dispatcher runs: 1,204 messages wait on RabbitMQ.", Sick},
		},
		{
			"RabbitMQ is full, and a core is away",
			State{
				Dispatchers: running, Pages: []Page{calm}, Broker: counted(&replicas.BrokerHealth{Error: "broker blocked: low on disk"}, -1),
				Programs: []replicas.Health{{Program: "core", Name: "c", Says: "does not answer: refused"}, {Program: "dispatcher", Name: "b", Says: "does not answer: refused"}},
			},
			Sentence{
				"RabbitMQ takes no messages: broker blocked: low on disk. Core does not answer. " +
					"All get what they ask for: 41 calls a second, each copy within 3 ms.", Sick,
			},
		},
		{
			"no dispatcher, and a judge counts",
			State{Verdict: &Verdict{}, Dispatchers: lost[1:], Pages: []Page{shown("Jazz", "excess", 900, 0, 0, 1204, 0)}},
			Sentence{"No dispatcher runs: 1,204 copies wait.", Sick},
		},
		{
			"suspended",
			State{Dispatchers: running, Pages: []Page{stopped, calm}},
			Sentence{"Nothing is sent for Jazz: the API stopped it (190). Everybody else: 3 ms.", Sick},
		},
		{
			"paused",
			State{Dispatchers: running, Pages: []Page{calm, paused}},
			Sentence{"Nothing is sent for Food: it is paused (on the page). Everybody else: 3 ms.", Excess},
		},
		{
			"paused, and another suspended",
			State{Dispatchers: running, Pages: []Page{paused, stopped, calm}},
			Sentence{"Nothing is sent for Jazz: the API stopped it (190). Everybody else: 3 ms.", Sick},
		},
		{
			"sick",
			State{Dispatchers: running, Pages: []Page{shown("Jazz", "sick", 29, 0, 0, 1204, 0), calm}},
			Sentence{"Calls for Jazz fail: 1,204 wait. Everybody else: 3 ms.", Sick},
		},
		{
			"the app is throttled",
			State{Dispatchers: running, Pages: []Page{calm, throttled}},
			Sentence{"Jazz: 1,204 wait because Meta throttles the app. Everybody else: 3 ms.", Sick},
		},
		{
			"too few calls",
			State{Dispatchers: running, Pages: []Page{calm, short}},
			Sentence{"Jazz: 1,204 wait for a call of the dispatcher's, which are all taken. Everybody else: 3 ms.", Excess},
		},
		{
			"the API is down",
			State{Dispatchers: []Dispatcher{{Name: "a", State: "running", APIDown: true}}, Pages: []Page{shown("Jazz", "excess", 29, 0, 0, 1204, 0)}},
			Sentence{"The API takes no calls: 1,204 copies wait until it does.", Sick},
		},
		{
			"one dispatcher is cut off",
			State{Dispatchers: []Dispatcher{{Name: "D1", State: "running", APIDown: true}, {Name: "D2", State: "running"}}, Pages: []Page{calm}},
			Sentence{"All get what they ask for: 41 calls a second, each copy within 3 ms. D1 does not reach the API; others do.", Sick},
		},
		{
			"one dispatcher is cut off, and nobody writes to the pages of the other",
			State{
				Dispatchers: []Dispatcher{{Name: "D1", State: "running", APIDown: true, Pages: []string{"1"}}, {Name: "D2", State: "running", Pages: []string{"2"}}},
				Pages:       []Page{shown("Jazz", "excess", 29, 0, 0, 1204, 0), shown("Chess", "free", 0, 0, 0, 0, 0)},
			},
			Sentence{"Jazz may have 300/s, and catches up: 1,204 still wait, 4.0 s. D1 does not reach the API.", Sick},
		},
		{
			"the API is down, and a dispatcher has no page",
			State{
				Dispatchers: []Dispatcher{{Name: "D1", State: "running", APIDown: true, Pages: []string{"1"}}, {Name: "D2", State: "running"}},
				Pages:       []Page{shown("Jazz", "excess", 29, 0, 0, 1204, 0)},
			},
			Sentence{"The API takes no calls: 1,204 copies wait until it does.", Sick},
		},
		{
			"the article's way",
			State{Strategy: "article", Dispatchers: running, Pages: []Page{shown("Jazz", "excess", 900, 300, 2100, 1200, 4), shown("Chess", "free", 41, 41, 0, 0, 0.5)}},
			Sentence{"The article's way: 2,100 refused calls for 341 accepted in the last second. Everybody else: 500 ms.", Sick},
		},
	} {
		if got := headline(&row.state); got != row.want {
			t.Errorf("%s: sentence = %+v\nwant %+v", row.name, got, row.want)
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for s, want := range map[float64]string{0: "1 ms", 0.0031: "3 ms", 0.9996: "1.0 s", 4: "4.0 s", 9.96: "10 s", 119: "119 s", 240: "4 min"} {
		if got := seconds(s); got != want {
			t.Errorf("seconds(%g) = %q, want %q", s, got, want)
		}
	}
}
