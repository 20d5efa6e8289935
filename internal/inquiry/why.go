// Package inquiry answers why the messages of a page, one message or those of a person wait: it
// asks all programs and RabbitMQ, and says in sentences what they tell, until when, and what
// ends it. It promises no time of arrival while anything stands in the way of new messages.
package inquiry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/queue"
	"chatclub/internal/replicas"
	"chatclub/internal/rooms"
)

// Inquirer asks a deployment. Fleet must have a core or a dispatcher.
type Inquirer struct {
	Fleet  replicas.Fleet
	Broker queue.Broker // nil: it is not asked
}

// Answer is what is known.
type Answer struct {
	Sentences []string           `json:"sentences"`
	Act       bool               `json:"act"` // somebody must do something
	Page      *Page              `json:"page,omitempty"`
	Events    []rooms.EventView  `json:"events,omitempty"`
	People    []rooms.PersonView `json:"people,omitempty"`
	Messages  []Message          `json:"messages,omitempty"`
	SentSince time.Time          `json:"sent_since,omitzero"` // all dispatchers know what they have sent since then
}

func (f *Answer) say(format string, args ...any) {
	f.Sentences = append(f.Sentences, fmt.Sprintf(format, args...))
}

// Why answers about a page, a message or a person, whichever the programs know by the id. An
// error names who does not answer, or says that nobody knows the id; what is known comes with it.
func (q Inquirer) Why(ctx context.Context, id string) (Answer, error) {
	var page, message, person Answer
	isPage, pageErr := page.askPage(ctx, q, id)
	if isPage {
		return page, pageErr
	}
	err := message.askMessage(ctx, q.Fleet, id)
	if len(message.Events)+len(message.Messages) > 0 {
		return message, err
	}
	if strings.Count(id, "/") < 2 {
		err = errors.Join(err, person.askPerson(ctx, q.Fleet, id))
	}
	if len(person.People)+len(person.Messages) > 0 {
		return person, err
	}
	if err == nil {
		err = fmt.Errorf("no program that was asked knows %.300q, as a page, a message or a person", id)
	}
	return message, err
}

// askPage adds what programs know of a page. It is false if none that answers knows it.
func (f *Answer) askPage(ctx context.Context, q Inquirer, page string) (known bool, err error) {
	if strings.Contains(page, "/") {
		return false, nil
	}
	list, statuses, err := Pages(ctx, q.Fleet)
	i := slices.IndexFunc(list, func(v Page) bool { return v.Page == page })
	if i < 0 {
		return false, err
	}
	v, trouble := list[i], q.trouble(ctx)
	var queues Answer
	if q.Broker != nil {
		err = errors.Join(err, queues.askQueues(ctx, q.Broker, page, statuses))
	}
	f.Page, f.Act = &v, v.Rank() == 0 || trouble != "" || queues.Act
	if trouble != "" {
		f.say("%s", trouble)
	}
	if text := v.State(); text != "" {
		f.say("%s: %s", page, text)
	}
	for _, p := range v.Dispatchers {
		f.say("%s %s: %s", page, p.Class, p.why(trouble == "" && !queues.Act))
		f.Act = f.Act || p.Waiting > 0 && !p.Reason.Explain().Alone
	}
	if len(f.Sentences) == 0 {
		f.say("%s: nothing waits at a dispatcher", page)
	}
	f.Sentences = append(f.Sentences, queues.Sentences...)
	return true, err
}

// trouble says what is wrong with RabbitMQ and the programs, "" if nothing is.
func (q Inquirer) trouble(ctx context.Context) string {
	var broker *replicas.BrokerHealth
	var asking sync.WaitGroup
	if q.Broker != nil {
		asking.Go(func() { broker = &replicas.BrokerHealth{Error: replicas.TakesNone(ctx, q.Broker)} })
	}
	programs := q.Fleet.Health(ctx)
	asking.Wait()
	return replicas.Trouble(programs, broker)
}

// why says what the messages of a page and class wait for, and where that can be promised when
// one arrives that is written now.
func (p Owned) why(promise bool) string {
	text := "nothing waits"
	if p.Waiting > 0 {
		text = fmt.Sprintf("%d wait", p.Waiting)
		if p.Oldest > 0 {
			text += ", the oldest for " + seconds(p.Oldest) + ","
		}
		text += " " + p.Waits()
	}
	if a := p.Arrival; a != nil && promise {
		text += fmt.Sprintf(": one written now arrives in about %s (%s to %s)", seconds(a.After), seconds(a.From), seconds(a.To))
	}
	if p.Waiting > 0 {
		text += advice(p.Reason, p.Page)
	}
	return text
}

// Waits is the reason of a page and class in words, with its end.
func (p Owned) Waits() string {
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

// askTimeout bounds what is asked about queues.
const askTimeout = 10 * time.Second

// askQueues adds what waits on the partitions of a page, and whether those take it who were
// asked.
func (f *Answer) askQueues(ctx context.Context, b queue.Broker, page string, statuses []dispatch.Status) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	top := b.Topology()
	takes := func(s dispatch.Status) bool { return slices.Contains(s.Partitions, top.PartitionOf(page)) }
	foreign := len(statuses) > 0 && !slices.ContainsFunc(statuses, takes)
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
		case info.Ready > 0 && foreign && q.who == "dispatcher":
			f.Act = true
			f.say("%s: somebody else consumes %s, where %d messages are ready: no dispatcher that was asked does. DISPATCHERS must name all of them; no other program may consume there",
				page, q.name, info.Ready)
		case info.Ready > 0:
			f.say("%s: %d more messages, of all pages of its partition, are ready on %s", page, info.Ready, q.name)
		}
	}
	return nil
}

// Moment is a time as operators read it; "-" if there is none.
func Moment(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

// seconds is a number of seconds as people say it.
func seconds(s float64) string {
	unit := time.Second
	if s < 10 {
		unit /= 10
	}
	return time.Duration(s * float64(time.Second)).Round(unit).String()
}
