// Package faults makes a whole deployment fail, one fault after another, and lets
// the fake platform's ledger say what each fault cost: how much was lost, doubled or
// unexpected, how long a page was silent, and when it was back.
//
// Table has the faults with their bounds. A Script puts them in an order that its
// seed decides. Run plays it against a System, which Start makes of processes, nodes
// of RabbitMQ and links between them.
//
// A copy counts as lost when it was announced before the fault's end and has not
// been accepted after three minutes. Losses, unexpected and overtaken copies are judged on
// any machine; the other bounds are not while the machine was busy.
package faults

import (
	"fmt"
	"io"
	"math"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/loadtest/report"
)

// Action is a way in which a part of the system fails.
type Action string

// The actions. Programs and nodes are killed, stopped and frozen; links are cut,
// half open, slow, late and reset; the rest is of nodes and of the API.
const (
	Kill        Action = "kill"         // kill -9, and a start after the fault's length
	Stop        Action = "stop"         // SIGTERM, and a start after the fault's length
	Restart     Action = "restart"      // SIGTERM and a start, one program after another, without a pause
	Unread      Action = "unread"       // the same, and the new programs' log is a pipe that nobody reads
	Freeze      Action = "freeze"       // SIGSTOP, and SIGCONT after the fault's length
	Cut         Action = "cut"          // connections end, new ones are refused
	HalfOpen    Action = "half-open"    // nothing that either side says arrives
	Reset       Action = "reset"        // connections end every ResetEvery
	Slow        Action = "slow"         // SlowRate passes to the server
	Late        Action = "late"         // LateBy each way
	CutOff      Action = "cut-off"      // a node, from the other nodes
	CloseTwice  Action = "close-twice"  // the broker closes all connections, and again after the fault's length
	MemoryAlarm Action = "memory-alarm" // the node takes no messages
	DiskAlarm   Action = "disk-alarm"
	Errors      Action = "errors"    // in errorShare of the calls each: 500, lost before, lost after, sent and yet an error
	NoAnswers   Action = "no-answer" // errorShare of the calls is not answered
	Refuse      Action = "refuse"    // new connections are reset
	HalveLimit  Action = "halve-limit"
)

// What the actions do, exactly.
const (
	ResetEvery = 2 * time.Second
	SlowRate   = 8 << 10 // bytes a second
	LateBy     = 200 * time.Millisecond
	errorShare = 0.05
)

// Part is the object of an action.
type Part string

// The parts. A link is named by its two ends.
const (
	Webhook          Part = "webhook"
	Core             Part = "core"
	Dispatcher       Part = "dispatcher"
	Programs         Part = "programs" // webhook, cores and dispatchers
	Node             Part = "node"     // of the broker
	API              Part = "api"
	WebhookBroker    Part = "webhook-broker"
	CoreBroker       Part = "core-broker"
	DispatcherBroker Part = "dispatcher-broker"
	CoreDatabase     Part = "core-database"
	DispatcherAPI    Part = "dispatcher-api"
)

// Fault is one row of the table: an action, and its bound.
type Fault struct {
	Name   string
	Title  string // for people
	Action Action
	Part   Part
	All    bool          // all of that part at once; otherwise one of them
	Length time.Duration // at least; the script adds up to half of it
	Bound  Bound
}

// Bound is the highest cost of a fault, beside a loss, which none may have. Doubled
// copies are a sum of terms, whose meaning docs/design/broker.md has.
type Bound struct {
	Calls  int           // this many times the calls that can be in flight
	Every  time.Duration // above 0: these so often while it lasts, and once
	Events int           // events in a core's hands, a copy for each member
	Moves  int           // messages on their way to another queue
	Sends  time.Duration // of sending at the asked pace
	Share  float64       // of the copies that were due while it lasted

	Silence time.Duration // the longest time in which a page that awaits copies gets none
	Lasting bool          // the fault's own length is added to Silence
	Back    time.Duration // from the fault's end until every page gets copies
}

// Load is the demand on the system, by which a Bound becomes figures.
type Load struct {
	Pages   int     // with one room each
	Members int     // of a room
	Events  float64 // a second, of all pages together
}

// UsualLoad is four rooms of 20, in which somebody writes each second.
var UsualLoad = Load{Pages: 4, Members: 20, Events: 4}

// Flow returns the number of copies that are due in a second.
func (l Load) Flow() float64 { return l.Events * float64(l.Members-1) }

// inFlight returns the largest number of copies in calls: those of 1.9 s, in
// which 99 of 100 calls end, and those of three events more than are due then,
// because users write at random.
func (l Load) inFlight() float64 {
	const longest = 1.9
	return l.Flow()*longest + 3*float64(l.Members-1)
}

// Doubled returns the largest number of doubled copies in a fault of a length.
func (b Bound) Doubled(l Load, length time.Duration) int64 {
	times := 1
	if b.Every > 0 {
		times += int(length / b.Every)
	}
	n := float64(times*b.Calls)*l.inFlight() + float64(b.Events*(l.Members-1)+b.Moves) +
		b.Sends.Seconds()*l.Flow() + b.Share*l.Flow()*length.Seconds()
	return int64(math.Ceil(n))
}

// overtaken returns the largest number of overtaken copies in a fault of a length.
func (f Fault) overtaken(l Load, length time.Duration) int64 {
	return ledger.MostOvertaken(f.Action == Kill, f.Bound.Doubled(l, length))
}

// bounds are the figures that a step must keep whose fault lasted so long, and that was
// settled after so long.
func (f Fault) bounds(l Load, length, over time.Duration) []report.Bound {
	b := f.Bound
	silence := b.Silence
	if b.Lasting {
		silence += length
	}
	return []report.Bound{
		report.AtMost(report.Lost, 0), report.AtMost(report.Unexpected, 0), report.AtMost(report.Duplicated, float64(b.Doubled(l, over))),
		report.AtMost(report.Overtaken, float64(f.overtaken(l, over))),
		report.AtMost(report.Silence, silence.Seconds()), report.AtMost(report.Back, b.Back.Seconds()),
	}
}

// text is the fault's bound in words, at a load.
func (f Fault) text(l Load, length time.Duration) string {
	b := f.Bound
	silent := b.Silence
	if b.Lasting {
		silent += length
	}
	return fmt.Sprintf("at most %d doubled, %d overtaken, silent for %v at most, back after %v", b.Doubled(l, length), f.overtaken(l, length), silent, b.Back)
}

// What the programs hold, from their settings.
const (
	handled = 8  // core's WORKERS: events in its hands
	moved   = 64 // messages that a dispatcher moves at a time
	// unacked is the time for which a dispatcher sends without an answer of its broker.
	unacked = 1500 * time.Millisecond
	// prompt is allowed where no time should pass: a page's events are seconds
	// apart, answers take 1.9 s, and a copy that fails once is tried again after 1 s.
	prompt = 5 * time.Second
	// handover is the time after which RabbitMQ gives up a connection that says nothing,
	// two to three heartbeats of 5 s, with prompt.
	handover = 15*time.Second + prompt
	// probed is the longest time until the next probe of an API that was away: its pauses
	// grow to 3 s, half as much again by chance, and a page that waits looks again
	// within a quarter of a second. With prompt.
	probed = 5*time.Second + prompt
	// unlucky is the longest time until the next probe of a page whose probes were all cut
	// off while calls of others passed: its own pauses double from 1 s to 8 s in 18 s, and
	// the API's are up to 4.5 s. With prompt.
	unlucky = 12*time.Second + prompt
	// rested is the longest time until a page is sent again of which the dispatchers got no
	// answers one after another: three of them notice within 5 s each. With prompt.
	rested = 16*time.Second + prompt
	// boot is the time of a node's start until it serves, on two cores.
	boot = 40 * time.Second
)

// Table has all faults. It is the only place that says what is done and what is
// promised: the script, the verdicts and the documents read it.
func Table() []Fault {
	lostLinks := Bound{Calls: 1, Events: 2 * handled, Moves: 3 * moved}
	with := func(b Bound, silence time.Duration, lasting bool) Bound {
		b.Silence, b.Lasting, b.Back = silence, lasting, 2*prompt
		return b
	}
	away := func(b Bound, back time.Duration) Bound { // of the API
		b.Silence, b.Lasting, b.Back = back, true, back
		return b
	}
	halfOpen := lostLinks
	halfOpen.Sends = unacked
	twice := Bound{Calls: 2, Events: 4 * handled, Moves: 6 * moved}
	return []Fault{
		{"kill-webhook", "webhook is killed, and starts again", Kill, Webhook, false, 2 * time.Second, with(Bound{}, 2*prompt, true)},
		{"kill-core", "one of two cores is killed", Kill, Core, false, 5 * time.Second, with(Bound{Events: handled}, prompt, false)},
		{"kill-dispatcher", "one of three dispatchers is killed", Kill, Dispatcher, false, 5 * time.Second, with(Bound{Calls: 1, Moves: moved}, prompt, false)},
		{"kill-all", "all programs are killed at once", Kill, Programs, true, 2 * time.Second, with(lostLinks, 2*prompt, true)},
		{"stop-webhook", "webhook is stopped, and starts again", Stop, Webhook, false, 2 * time.Second, with(Bound{}, 2*prompt, true)},
		{"stop-core", "one of two cores is stopped", Stop, Core, false, 5 * time.Second, with(Bound{}, prompt, false)},
		{"stop-dispatcher", "one of three dispatchers is stopped", Stop, Dispatcher, false, 5 * time.Second, with(Bound{}, prompt, false)},
		{"restart-dispatchers", "all dispatchers are restarted one right after another, again and again", Restart, Dispatcher, true, 15 * time.Second, with(Bound{}, handover, false)},
		{"restart-cores", "all cores are restarted one right after another, again and again", Restart, Core, true, 10 * time.Second, with(Bound{}, handover, false)},
		{"unread-logs", "all programs are restarted, and nobody reads their logs", Unread, Programs, true, 20 * time.Second, with(Bound{}, handover, false)},
		{"freeze-webhook", "webhook is frozen (SIGSTOP)", Freeze, Webhook, false, 10 * time.Second, with(Bound{}, 2*prompt, true)},
		{"freeze-core", "one of two cores is frozen", Freeze, Core, false, 20 * time.Second, with(Bound{Events: handled}, handover, false)},
		{"freeze-dispatcher", "one of three dispatchers is frozen", Freeze, Dispatcher, false, 20 * time.Second, with(Bound{Calls: 1, Sends: unacked, Moves: moved}, handover, false)},

		{"kill-node", "a node of the broker is killed, and boots", Kill, Node, false, 5 * time.Second, with(lostLinks, 20*time.Second, false)},
		{"stop-node", "a node of the broker is stopped in order, and boots", Stop, Node, false, 5 * time.Second, with(lostLinks, 20*time.Second, false)},
		{"freeze-node", "a node of the broker is frozen", Freeze, Node, false, 20 * time.Second, with(halfOpen, handover, false)},
		{"cut-off-node", "a node is cut off from the other nodes", CutOff, Node, false, 40 * time.Second, with(halfOpen, 15*time.Second, false)},
		{"kill-broker", "all nodes of the broker are killed, and boot", Kill, Node, true, time.Second, with(lostLinks, boot, true)},
		{"stop-broker", "all nodes of the broker are stopped in order, and boot", Stop, Node, true, time.Second, with(lostLinks, boot, true)},
		{"close-all-twice", "the broker closes all connections, and again 6 s later", CloseTwice, Node, true, 6 * time.Second, with(twice, handover, false)},
		{"memory-alarm", "a node of the broker has no memory left", MemoryAlarm, Node, false, 15 * time.Second, with(Bound{}, 2*prompt, true)},
		{"disk-alarm", "a node of the broker has no disk left", DiskAlarm, Node, false, 15 * time.Second, with(Bound{}, 2*prompt, true)},

		{"cut-webhook-broker", "webhook's connections to the broker are cut", Cut, WebhookBroker, true, 10 * time.Second, with(Bound{}, 2*prompt, true)},
		{"cut-core-broker", "one core's connections to the broker are cut", Cut, CoreBroker, false, 10 * time.Second, with(Bound{Events: handled}, prompt, false)},
		{"cut-dispatcher-broker", "one dispatcher's connections to the broker are cut", Cut, DispatcherBroker, false, 10 * time.Second, with(Bound{Calls: 1, Moves: moved}, prompt, false)},
		{"cut-dispatchers-broker", "all dispatchers' connections to the broker are cut", Cut, DispatcherBroker, true, 15 * time.Second, with(lostLinks, 2*prompt, true)},
		{"half-open-webhook-broker", "webhook's connections to the broker are half open", HalfOpen, WebhookBroker, true, 20 * time.Second, with(Bound{}, 2*prompt, true)},
		{"half-open-core-broker", "one core's connections to the broker are half open", HalfOpen, CoreBroker, false, 20 * time.Second, with(Bound{Events: handled}, handover, false)},
		{"half-open-dispatcher-broker", "one dispatcher's connections to the broker are half open", HalfOpen, DispatcherBroker, false, 20 * time.Second, with(Bound{Calls: 1, Sends: unacked, Moves: moved}, handover, false)},
		{"half-open-dispatchers-broker", "all dispatchers' connections to the broker are half open", HalfOpen, DispatcherBroker, true, 20 * time.Second, with(halfOpen, 2*prompt, true)},
		{"reset-cores-broker", "all cores' connections to the broker end every 2 s", Reset, CoreBroker, true, 12 * time.Second, with(Bound{Events: 4 * handled}, 2*prompt, true)},
		{"reset-dispatchers-broker", "all dispatchers' connections to the broker end every 2 s", Reset, DispatcherBroker, true, 12 * time.Second, with(Bound{Calls: 1, Every: ResetEvery, Moves: 3 * moved}, 2*prompt, true)},
		{"slow-cores-broker", "8 kB/s between each core and the broker: it is slow to confirm", Slow, CoreBroker, true, 30 * time.Second, with(Bound{Share: .05, Events: 2 * handled}, 2*prompt, true)},
		{"late-programs-broker", "200 ms between all programs and the broker", Late, Programs, true, 15 * time.Second, with(Bound{}, prompt, false)},

		{"cut-cores-database", "all cores' connections to the database are cut", Cut, CoreDatabase, true, 15 * time.Second, with(Bound{}, 2*prompt, true)},
		{"half-open-cores-database", "all cores' connections to the database are half open", HalfOpen, CoreDatabase, true, 20 * time.Second, with(Bound{}, 2*prompt, true)},
		{"reset-cores-database", "all cores' connections to the database end every 2 s", Reset, CoreDatabase, true, 12 * time.Second, with(Bound{}, 2*prompt, true)},

		{"cut-dispatchers-api", "all connections to the API are cut", Cut, DispatcherAPI, true, 15 * time.Second, away(Bound{Calls: 1}, probed)},
		{"half-open-dispatchers-api", "all connections to the API are half open", HalfOpen, DispatcherAPI, true, 20 * time.Second, away(Bound{Calls: 1}, rested)},
		{"reset-dispatchers-api", "all connections to the API end every 2 s", Reset, DispatcherAPI, true, 12 * time.Second, away(Bound{Calls: 1, Every: ResetEvery}, unlucky)},
		{"api-errors", "the API fails 5 % of the calls in each of four ways", Errors, API, true, 20 * time.Second, with(Bound{Share: 1.5 * errorShare, Calls: 1}, 2*prompt, false)},
		{"api-no-answer", "the API does not answer 5 % of the calls", NoAnswers, API, true, 20 * time.Second, with(Bound{}, 3*prompt, false)},
		{"api-refuses", "the API takes no new connections", Refuse, API, true, 10 * time.Second, away(Bound{Calls: 1}, probed)},
		{"api-halves-limit", "the API halves the limit of every page", HalveLimit, API, true, 20 * time.Second, with(Bound{}, prompt, false)},
	}
}

// WriteTable writes the table of faults in Markdown, with their bounds at the usual load.
func WriteTable(w io.Writer) error {
	_, err := fmt.Fprintln(w, "| fault | what is done | lasts | nothing lost, and |\n| --- | --- | ---: | --- |")
	for _, f := range Table() {
		if err == nil {
			_, err = fmt.Fprintf(w, "| %s | %s | %v | %s |\n", f.Name, f.Title, f.Length, f.text(UsualLoad, f.Length))
		}
	}
	return err
}
