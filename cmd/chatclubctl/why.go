package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
	"chatclub/internal/replicas"
	"chatclub/internal/rooms"
	"chatclub/internal/service"
)

// whySettings are those of `chatclubctl why`.
type whySettings struct {
	adminSettings
	brokerSettings
}

// About says what the program does.
func (whySettings) About() string {
	return "chatclubctl why says what the messages of a page, or one message, wait for, until when, and what ends it.\n" +
		"An id is Messenger's mid, PAGE/MID, PAGE/MID/RECIPIENT, or that of any message. `chatclubctl dead show ID`\n" +
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

// findings are the answer of `chatclubctl why`.
type findings struct {
	Sentences []string          `json:"sentences"`
	Act       bool              `json:"act"` // somebody must do something
	Page      *pageView         `json:"page,omitempty"`
	Events    []rooms.EventView `json:"events,omitempty"`
	Messages  []heldMessage     `json:"messages,omitempty"`
	SentSince time.Time         `json:"sent_since,omitzero"` // all dispatchers know what they have sent since then
}

// heldMessage is a message that a dispatcher holds or has sent lately.
type heldMessage struct {
	Dispatcher string `json:"dispatcher"`
	dispatch.MessageStatus
}

func (f *findings) say(format string, args ...any) {
	f.Sentences = append(f.Sentences, fmt.Sprintf(format, args...))
}

func (t tool) why(ctx context.Context, operand string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl why PAGE|ID", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	s, err := service.LoadFlags[whySettings](flags, args, t.environ, t.stdout)
	switch {
	case err != nil:
		return err
	case len(s.Core)+len(s.Dispatchers) == 0:
		return wrong(errors.New("CORE or DISPATCHERS must be set"))
	}
	f := s.fleet(ctx)
	var found findings
	if isPage, pageErr := found.askPage(ctx, f, operand); isPage {
		err = pageErr
		if s.AMQPURL != "" {
			err = errors.Join(err, t.askQueues(ctx, s.brokerSettings, operand, &found))
		}
	} else {
		err = found.askMessage(ctx, f, operand)
	}
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

// askPage asks about a page. It is false if nobody who answers knows a page of that id.
func (f *findings) askPage(ctx context.Context, fleet replicas.Fleet, page string) (known bool, err error) {
	if strings.Contains(page, "/") {
		return false, nil
	}
	list, _, err := pagesOf(ctx, fleet)
	i := slices.IndexFunc(list, func(v pageView) bool { return v.Page == page })
	if i < 0 {
		return false, err
	}
	v := list[i]
	f.Page, f.Act = &v, v.rank() == 0
	if text := v.state(); text != "" {
		f.say("%s: %s", page, text)
	}
	for _, p := range v.Dispatchers {
		f.say("%s %s: %s", page, p.Class, p.why())
		f.Act = f.Act || p.Waiting > 0 && !p.Reason.Explain().Alone
	}
	if len(f.Sentences) == 0 {
		f.say("%s: nothing waits at a dispatcher", page)
	}
	return true, err
}

// why says what the messages of a page and class wait for, and when one arrives that is
// written now.
func (p ownedPage) why() string {
	text := "nothing waits"
	if p.Waiting > 0 {
		text = fmt.Sprintf("%d wait", p.Waiting)
		if p.Oldest > 0 {
			text += ", the oldest for " + seconds(p.Oldest) + ","
		}
		text += " " + p.waits()
	}
	if a := p.Arrival; a != nil {
		text += fmt.Sprintf(": one written now arrives in about %s (%s to %s)", seconds(a.After), seconds(a.From), seconds(a.To))
	}
	if p.Waiting > 0 {
		text += advice(p.Reason, p.Page)
	}
	return text
}

// waits is the reason of a page and class in words, with its end.
func (p ownedPage) waits() string {
	text := p.Reason.Sentence(p.Until)
	if p.Reason == dispatch.WaitsForLimit {
		text += fmt.Sprintf(" (%g/s)", p.Limit)
	}
	return text
}

// advice says what an operator can do about a reason.
func advice(r dispatch.Reason, page string) string {
	x := r.Explain()
	if x.Do == "" {
		return ""
	}
	text := "; " + strings.ReplaceAll(x.Do, "PAGE", page)
	if x.Runbook != "" {
		text += " (runbook, " + x.Runbook + ")"
	}
	return text
}

// askQueues adds what waits on the partitions of a page, and whether anybody takes it.
func (t tool) askQueues(ctx context.Context, s brokerSettings, page string, f *findings) (err error) {
	b, err := t.openBroker(s.broker())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	top := b.Topology()
	for _, q := range []struct{ name, who string }{{top.InboundOf(page), "core"}, {top.OutboundOf(page), "dispatcher"}} {
		info, err := b.Inspect(ctx, q.name)
		switch {
		case errors.Is(err, queue.ErrUnroutable):
			f.Act = true
			f.say("%s: there is no queue %s: QUEUE_PREFIX and PARTITIONS must be as the programs have them", page, q.name)
		case err != nil:
			return err
		case info.Consumers == 0:
			f.Act = true
			f.say("%s: no %s takes the %d messages of %s: start one; PARTITIONS and QUEUE_PREFIX must be equal everywhere", page, q.who, info.Ready, q.name)
		case info.Ready > 0:
			f.say("%s: %d more messages, of all pages of its partition, are ready on %s", page, info.Ready, q.name)
		}
	}
	return nil
}

// seconds is a number of seconds as people say it.
func seconds(s float64) string {
	unit := time.Second
	if s < 10 {
		unit /= 10
	}
	return time.Duration(s * float64(time.Second)).Round(unit).String()
}

// byID orders messages by their ids.
func byID(a, b heldMessage) int { return cmp.Compare(a.ID, b.ID) }
