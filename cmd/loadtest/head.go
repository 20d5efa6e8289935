package main

import (
	"strings"
	"time"

	"chatclub/internal/report"
)

// head is the report before anything ran.
func (p *parsed) head(command string, args []string) *report.Report {
	return &report.Report{
		Schema: report.Schema, Scenario: p.scenario.Name, Title: p.scenario.Title, Source: p.scenario.Source,
		Parameters: p.parameters(), Command: commandLine(command, args), Seed: p.common.Seed, Started: time.Now().UTC().Truncate(time.Second),
		Versions: p.versions(), Machine: report.ThisMachine(),
	}
}

func (p *parsed) versions() report.Versions {
	v := report.ThisBuild()
	v.Broker = memoryBroker
	if p.broker != memoryBroker || p.target != "" {
		v.Broker = "RabbitMQ"
	}
	return v
}

// commandLine is what to type to run it again, without passwords.
func commandLine(command string, args []string) string {
	words := []string{"go run ./cmd/loadtest", command}
	hide := false
	for _, a := range args {
		switch {
		case hide && strings.Contains(a, "://"):
			a = "$URL"
		case hide:
			a = "$SECRET"
		case strings.Contains(a, "amqp") && strings.Contains(a, "@"):
			a = "-broker=$URL"
		}
		words = append(words, a)
		hide = a == "-broker" || a == "--broker" || a == "-secret" || a == "--secret" || a == "-redis"
	}
	return strings.ReplaceAll(strings.Join(words, " "), "$URL memory", "memory")
}
