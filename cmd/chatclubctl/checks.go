package main

import (
	"fmt"
	"slices"
	"strings"

	"chatclub/internal/dispatch"
	"chatclub/internal/inquiry"
	"chatclub/internal/replicas"
)

// check looks for one kind of fault.
type check struct {
	name string
	// look returns the faults; notLooked says why it could not look at all, or not at everything.
	look func(*patient) (faults []fault, notLooked string)
}

// checks has all, the causes before what follows from them. One that compares what programs say
// of their settings belongs to settings.
func checks() []check {
	return []check{
		{"broker", (*patient).broker},
		{"programs", (*patient).programs},
		{"settings", (*patient).settings},
		{"queues", (*patient).queues},
		{"api", (*patient).api},
		{"tokens", (*patient).tokens},
		{"pages", (*patient).stopped},
		{"policies", (*patient).lossy},
	}
}

// brokerUnasked is why nothing is known of RabbitMQ.
const brokerUnasked = "AMQP_URL is not set"

func (p *patient) broker() ([]fault, string) {
	switch b := p.Broker; {
	case b != nil && strings.Contains(b.Error, "blocked"), slices.ContainsFunc(p.Programs, isBlocked):
		return []fault{{Says: "RabbitMQ takes no messages: an alarm has it block who publishes", Do: "Add disk or memory, and find why the longest queue grows.", Runbook: "BrokerNearItsLimits"}}, ""
	case b == nil:
		return nil, brokerUnasked
	case b.Error != "":
		return []fault{{Says: "RabbitMQ takes no messages: " + b.Error, Do: "Bring it back, or repair AMQP_URL.", Runbook: "BrokerAway"}}, ""
	}
	return nil, ""
}

// isBlocked reports whether a program met an alarm of RabbitMQ, which tells it to those alone
// that publish.
func isBlocked(h replicas.Health) bool { return strings.Contains(h.Says, "broker blocked") }

func (p *patient) programs() (faults []fault, notLooked string) {
	var unasked []string
	for _, kind := range []struct{ program, setting string }{{"webhook", "WEBHOOK"}, {"core", "CORE"}, {"dispatcher", "DISPATCHERS"}} {
		if !p.has(kind.program) {
			unasked = append(unasked, kind.setting)
		}
	}
	if len(unasked) > 0 {
		notLooked = strings.Join(unasked, ", ") + " not set"
	}
	for _, h := range p.Programs {
		switch {
		case h.Says == "", isBlocked(h): // that is RabbitMQ's
		case strings.Contains(h.Says, "partitions stand"):
			faults = append(faults, fault{Says: h.Program + " " + h.Name + " is not ready: " + h.Says, Do: "Its log has the command that heals it.", Runbook: "PartitionStands"})
		case !h.Answers:
			faults = append(faults, fault{Says: h.Program + " " + h.Name + " " + h.Says, Do: "See its last log lines, and start it again; kill it first if it hangs.", Runbook: "ProgramMissing"})
		default:
			faults = append(faults, fault{Says: h.Program + " " + h.Name + " is not ready: " + h.Says, Do: "Repair what it names.", Runbook: map[string]string{"core": "CoreFails"}[h.Program]})
		}
	}
	for i := range faults {
		if faults[i].Runbook == "" {
			faults[i].Runbook = "BrokerAway"
		}
	}
	if p.pagesErr != nil && len(faults) == 0 { // otherwise it is the same
		faults = append(faults, fault{Says: "pages are not told: " + p.pagesErr.Error(), Do: "Set ADMIN_TOKEN as the programs have it.", Runbook: "ProgramMissing"})
	}
	return faults, notLooked
}

// settings looks for programs whose settings differ from each other's, or from the tool's.
func (p *patient) settings() (faults []fault, notLooked string) {
	if p.Differ != "" {
		faults = append(faults, fault{
			Says: "settings differ: " + p.Differ, Do: "Give cores and dispatchers the same ones, and the same version, and start them again.", Runbook: "NothingIsSent",
		})
	}
	if p.Broker == nil {
		return faults, brokerUnasked
	}
	const do = "Give all programs, and this tool, the same QUEUE_PREFIX and PARTITIONS, and start them again."
	if n := len(p.Broker.Missing); n > 0 {
		faults = append(faults, fault{Says: fmt.Sprintf("no program has declared %d queues, such as %s", n, p.Broker.Missing[0]), Do: do, Runbook: "NothingIsSent"})
	}
	if n := len(p.Broker.Beyond); n > 0 {
		ready := 0
		for _, q := range p.Broker.Beyond {
			ready += q.Ready
		}
		faults = append(faults, fault{
			Says:    fmt.Sprintf("there are %d queues beyond PARTITIONS=%d, such as %s, with %d messages", n, p.top.Partitions, p.Broker.Beyond[0].Queue, ready),
			Do:      do + " Delete them if the number was lowered.",
			Runbook: "NothingIsSent",
		})
	}
	return faults, p.Broker.CountError
}

func (p *patient) queues() (faults []fault, notLooked string) {
	if p.Broker == nil {
		return nil, brokerUnasked
	}
	for _, q := range p.Broker.Idle {
		who := "a dispatcher"
		if p.top.IsInbound(q.Queue) {
			who = "core"
		}
		faults = append(faults, fault{Says: fmt.Sprintf("%d messages on %s have no consumer", q.Ready, q.Queue), Do: "Start " + who + ", and compare PARTITIONS everywhere.", Runbook: "NothingIsSent"})
	}
	return faults, p.Broker.CountError
}

// untold is why not everything is known of pages.
func (p *patient) untold() string {
	switch {
	case len(p.names) == 0:
		return "DISPATCHERS is not set"
	case p.pagesErr != nil:
		return "not all programs tell of pages"
	}
	return ""
}

func (p *patient) api() (faults []fault, notLooked string) {
	for i, s := range p.statuses {
		if s.APIDown {
			faults = append(faults, fault{Says: "the Send API takes no calls of " + p.names[i], Do: "One dispatcher alone: see its network and GRAPH_URL. All: wait.", Runbook: "SendAPIDown"})
		}
	}
	return faults, p.untold()
}

func (p *patient) tokens() (faults []fault, notLooked string) {
	for _, v := range p.pages {
		for _, s := range v.Suspended {
			if s.Code == "" {
				faults = append(faults, fault{Says: "page " + v.Page + " has no token on " + s.Dispatcher, Do: "Add it to all pages files; pause the page meanwhile.", Runbook: "PageSuspended"})
			}
		}
	}
	return faults, p.untold()
}

// stopped looks for pages that are not sent for, and not by an order.
func (p *patient) stopped() (faults []fault, notLooked string) {
	for _, v := range p.pages {
		suspended := false
		for _, s := range v.Suspended {
			if suspended = true; s.Code != "" {
				faults = append(faults, fault{
					Says: fmt.Sprintf("page %s is suspended on %s (code %s), probed at %s", v.Page, s.Dispatcher, s.Code, inquiry.Moment(s.ProbeAt)),
					Do:   "Repair its token or permission; pause the page meanwhile.", Runbook: "PageSuspended",
				})
			}
		}
		for _, c := range v.Dispatchers {
			x := c.Reason.Explain()
			byOther := suspended || c.Reason == dispatch.WaitsForResume || c.Reason == dispatch.WaitsForAPI || c.Reason == dispatch.WaitsForBroker
			if c.Waiting > 0 && !x.Alone && !byOther {
				faults = append(faults, fault{Says: fmt.Sprintf("page %s %s: %d wait %s", v.Page, c.Class, c.Waiting, c.Waits()), Do: upper(x.Do) + ".", Runbook: x.Runbook})
			}
		}
	}
	return faults, p.untold()
}

// upper begins a sentence.
func upper(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

func (p *patient) lossy() (faults []fault, notLooked string) {
	switch {
	case !p.managed:
		return nil, "MANAGEMENT_URL is not set: AMQP does not tell policies"
	case p.policiesErr != nil:
		return nil, p.policiesErr.Error()
	}
	for _, says := range losses(p.top, p.policies) {
		faults = append(faults, fault{Says: says, Do: "Take it off: rabbitmqctl clear_policy, or give its pattern queues of others.", Runbook: "DeadLetters"})
	}
	return faults, ""
}
