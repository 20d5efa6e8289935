package main

import (
	"strings"
	"time"

	"chatclub/loadtest/report"
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
	v.Broker, v.Redis = memoryBroker, p.redisVersion
	if p.broker != memoryBroker || p.target != "" {
		v.Broker = "RabbitMQ"
	}
	return v
}

// commandLine is what to type to run it again, without passwords.
func commandLine(command string, args []string) string {
	words := []string{"go run ./cmd/loadtest", command}
	secret := false // the next word is one
	for _, a := range args {
		name, value, joined := strings.Cut(a, "=")
		isSecret := strings.HasPrefix(a, "-") && strings.TrimLeft(name, "-") == "secret"
		switch {
		case secret:
			words = append(words, "$SECRET")
		case isSecret && joined:
			words = append(words, name+"=$SECRET")
		case joined && strings.HasPrefix(a, "-"):
			words = append(words, name+"="+withoutPassword(value))
		default:
			words = append(words, withoutPassword(a))
		}
		secret = !secret && isSecret && !joined
	}
	return strings.Join(words, " ")
}

// withoutPassword hides the password in an address, also in one that is none
// because of a character in the password. A user's name alone stays.
func withoutPassword(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	at := strings.LastIndex(rest, "@")
	if !ok || at < 0 {
		return s
	}
	user, _, password := strings.Cut(rest[:at], ":")
	if !password {
		return s
	}
	return scheme + "://" + user + ":$PASSWORD" + rest[at:]
}
