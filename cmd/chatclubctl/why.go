package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"chatclub/internal/inquiry"
	"chatclub/internal/service"
)

// whySettings are those of `chatclubctl why`.
type whySettings struct {
	adminSettings
	brokerSettings
}

// About says what the program does.
func (whySettings) About() string {
	return "chatclubctl why says what the messages of a page, of a person, or one message, wait for, until when, and what\n" +
		"ends it. An id is Messenger's mid, PAGE/MID, PAGE/MID/RECIPIENT, or that of any message; a person is PSID or\n" +
		"PAGE/PSID. `chatclubctl dead show ID`, or `dead list -to PSID`,\n" +
		"has the dead ones; what is nowhere waits on a queue, or was sent before.\n" +
		"The exit code is 0 if nothing waits, or only for what ends by itself; 3 if somebody must act; 1 if nobody\n" +
		"knows, or a program does not answer; 2 if a flag or setting is wrong."
}

// Validate names every fault.
func (s whySettings) Validate() error {
	return errors.Join(s.adminSettings.Validate(), s.brokerSettings.Validate())
}

// exitAct is the exit code of a wait that somebody must end.
const exitAct = 3

// mostSentences is the largest number of them that people are shown.
const mostSentences = 20

func (t tool) why(ctx context.Context, operand string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl why PAGE|ID|PERSON", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	s, err := service.LoadFlags[whySettings](flags, args, t.environ, t.stdout)
	switch {
	case err != nil:
		return err
	case len(s.Core)+len(s.Dispatchers) == 0:
		return wrong(errors.New("CORE or DISPATCHERS must be set"))
	}
	q := inquiry.Inquirer{Fleet: s.fleet(ctx)}
	if s.AMQPURL != "" {
		b, err := t.openBroker(s.broker())
		if err != nil {
			return err
		}
		defer func() { _ = b.Close() }() // nothing is published
		q.Broker = b
	}
	found, err := q.Why(ctx, operand)
	switch {
	case *asJSON:
		err = errors.Join(err, json.NewEncoder(t.stdout).Encode(found))
	default:
		for i, sentence := range found.Sentences {
			if i == mostSentences {
				fmt.Fprintf(t.stdout, "and %d more: -json has all\n", len(found.Sentences)-i)
				break
			}
			fmt.Fprintln(t.stdout, printable(sentence))
		}
	}
	if err == nil && found.Act {
		return service.Exit(exitAct)
	}
	return err
}
