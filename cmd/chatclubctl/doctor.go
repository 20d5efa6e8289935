package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"strings"

	"chatclub/internal/dispatch"
	"chatclub/internal/inquiry"
	"chatclub/internal/queue"
	"chatclub/internal/service"
)

// doctorSettings are those of `chatclubctl doctor`.
type doctorSettings struct {
	statusSettings
	Management service.Secret `env:"MANAGEMENT_URL" doc:"Address of RabbitMQ's management API, http://user:password@rabbitmq:15672, of a user with the tag management; empty: policies are not looked at."`
}

// About says what the program does.
func (doctorSettings) About() string {
	return "chatclubctl doctor looks at all programs, RabbitMQ, queues, pages and policies, and says of each fault what\n" +
		"to do, with the heading in the runbook. What it was not given the address of it does not look at, and says so.\n" +
		"The exit code is 0 if nothing is wrong, 1 if something is, 2 if a flag or setting is wrong."
}

// Validate names every fault.
func (s doctorSettings) Validate() error {
	return errors.Join(s.statusSettings.Validate(), checkManagement("MANAGEMENT_URL", s.Management))
}

// patient is all that was asked, for the checks.
type patient struct {
	overview
	top         queue.Topology
	pages       []inquiry.Page
	statuses    []dispatch.Status // of the dispatchers
	names       []string          // of the dispatchers
	pagesErr    error
	managed     bool // the management API was asked
	policies    []policed
	policiesErr error
}

// fault is one thing that is wrong.
type fault struct {
	Check   string `json:"check"`
	Says    string `json:"says"`
	Do      string `json:"do"`
	Runbook string `json:"runbook"` // heading
}

// diagnosis is the answer of doctor.
type diagnosis struct {
	Faults    []fault           `json:"faults"`
	Well      []string          `json:"well"`       // checks that found nothing
	NotLooked map[string]string `json:"not_looked"` // by check, why it was not made
}

func (t tool) doctor(ctx context.Context, _ string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl doctor", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	s, err := service.LoadFlags[doctorSettings](flags, args, t.environ, t.stdout)
	if err == nil {
		err = s.checkAny()
	}
	if err != nil {
		return err
	}
	p, err := t.examine(ctx, s)
	if err != nil {
		return err
	}
	d := diagnosis{Faults: []fault{}, Well: []string{}, NotLooked: map[string]string{}}
	for _, c := range checks() {
		faults, why := c.look(p)
		for i := range faults {
			faults[i].Check = c.name
		}
		switch d.Faults = append(d.Faults, faults...); {
		case why != "":
			d.NotLooked[c.name] = why
		case len(faults) == 0:
			d.Well = append(d.Well, c.name)
		}
	}
	if !*asJSON {
		t.printDiagnosis(d)
	} else if err := json.NewEncoder(t.stdout).Encode(d); err != nil {
		return err
	}
	if len(d.Faults) > 0 {
		return service.Exit(service.ExitFailure)
	}
	return nil
}

// examine asks everybody.
func (t tool) examine(ctx context.Context, s doctorSettings) (p *patient, err error) {
	f := s.fleet(ctx)
	p = &patient{top: s.Topology()}
	if p.overview, err = t.lookAt(ctx, s.statusSettings, f); err != nil {
		return nil, err
	}
	p.pages, p.statuses, p.pagesErr = inquiry.Pages(ctx, f)
	for _, r := range f.Dispatchers {
		p.names = append(p.names, r.Name)
	}
	if s.Management != "" {
		p.managed = true
		p.policies, p.policiesErr = askPolicies(ctx, s.Management, vhostOf(s.broker().URLs()))
	}
	return p, nil
}

// vhostOf returns the virtual host of RabbitMQ's addresses: what follows the slash, and / without one.
func vhostOf(urls []string) string {
	if len(urls) == 0 {
		return "/"
	}
	u, err := url.Parse(urls[0])
	if err != nil || u.Path == "" || u.Path == "/" {
		return "/"
	}
	return strings.TrimPrefix(u.Path, "/")
}

func (t tool) printDiagnosis(d diagnosis) {
	for _, f := range d.Faults {
		fmt.Fprintf(t.stdout, "%s: %s\n    %s (runbook, %s)\n", f.Check, printable(f.Says), printable(f.Do), f.Runbook)
	}
	if len(d.Well) > 0 {
		fmt.Fprintf(t.stdout, "well: %s\n", strings.Join(d.Well, ", "))
	}
	for _, c := range checks() {
		if why := d.NotLooked[c.name]; why != "" {
			fmt.Fprintf(t.stdout, "not looked at: %s: %s\n", c.name, printable(why))
		}
	}
}
