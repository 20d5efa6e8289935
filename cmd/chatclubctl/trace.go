package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"chatclub/internal/operator"
	"chatclub/internal/service"
)

// traceSettings are those of `chatclubctl trace`.
type traceSettings struct {
	adminSettings
	queueSettings
}

// About says what the program does.
func (traceSettings) About() string {
	return "chatclubctl trace says where a message and its copies are: what core knows, what dispatchers hold and have\n" +
		"sent of late, what is dead, and which queues may have the rest. An id is Messenger's mid, PAGE/MID or\n" +
		"PAGE/MID/RECIPIENT. What nobody was asked for, and what nobody keeps, it says too."
}

// Validate names every fault.
func (s traceSettings) Validate() error {
	return errors.Join(s.adminSettings.Validate(), s.queueSettings.Validate())
}

// traced is what is known of a message.
type traced struct {
	ID        string              `json:"id"`                  // PAGE/MID
	Core      *operator.Message   `json:"core,omitempty"`      // nil: core does not know it, or was not asked
	Broadcast *operator.Broadcast `json:"broadcast,omitempty"` // likewise, of a broadcast
	Copies    []tracedCopy        `json:"copies"`
	Queues    []tracedQueue       `json:"queues,omitempty"` // on which it or its copies may wait
	Unknown   []string            `json:"unknown"`          // what could not be found out, in sentences
}

// tracedCopy is where one copy is, or was.
type tracedCopy struct {
	ID      string    `json:"id"`
	State   string    `json:"state"` // as of dispatch.MessageStatus, or "dead"
	Where   string    `json:"where"` // the dispatcher, or the queue
	At      time.Time `json:"at,omitzero"`
	Attempt int       `json:"attempt"`
	Detail  string    `json:"detail,omitempty"`
}

// tracedQueue is how much is ready on a queue. What programs hold is not counted.
type tracedQueue struct {
	Queue string `json:"queue"`
	Ready int    `json:"ready"`
}

func (t tool) trace(ctx context.Context, id string, args []string) (err error) {
	flags := flag.NewFlagSet("chatclubctl trace ID", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	s, err := service.LoadFlags[traceSettings](flags, args, t.environ, t.stdout)
	switch {
	case err != nil:
		return err
	case len(s.Core) == 0 && !strings.Contains(id, "/"):
		return wrong(errors.New("CORE must be set, which knows the page, or PAGE/MID be given"))
	case len(s.Core)+len(s.Dispatchers) == 0 && s.AMQPURL.Reveal() == "":
		return wrong(errors.New("CORE, DISPATCHERS or AMQP_URL must be set"))
	}
	tr := &tracer{fleet: s.fleet(ctx), traced: traced{ID: id, Copies: []tracedCopy{}, Unknown: []string{}}}
	broker, err := t.openBroker(s.broker())
	if err != nil {
		return err
	}
	if broker != nil {
		defer func() { err = errors.Join(err, broker.Close()) }()
		tr.broker = broker
	}
	if err := tr.find(ctx); err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(t.stdout).Encode(tr.traced)
	}
	return t.printTrace(&tr.traced)
}

func (t tool) printTrace(tr *traced) error {
	out := t.stdout
	fmt.Fprintf(out, "%s\n%s\n\n", printable(tr.ID), tr.received())
	w := newTable(out)
	if len(tr.Copies) > 0 {
		fmt.Fprintln(w, "ID\tSTATE\tWHERE\tAT\tCALLS\tDETAIL")
	}
	for _, c := range tr.Copies {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", printable(c.ID), printable(c.State), printable(c.Where), since(c.At), c.Attempt, printable(c.Detail))
	}
	if len(tr.Copies) > 0 {
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, q := range tr.Queues {
		fmt.Fprintf(out, "may be among the %d messages on %s\n", q.Ready, printable(q.Queue))
	}
	for _, u := range tr.Unknown {
		fmt.Fprintf(out, "not known: %s\n", printable(u))
	}
	return nil
}

// received says what core knows.
func (tr *traced) received() string {
	switch {
	case tr.Broadcast != nil:
		b := tr.Broadcast
		return fmt.Sprintf("broadcast of %s, %s: %d of %d recipients are queued", since(b.Created), printable(string(b.State)), b.Queued, b.Recipients)
	case tr.Core == nil:
		return "not known to core"
	}
	c := tr.Core
	text := "received by core at " + since(c.Received)
	if c.Room != 0 {
		text += fmt.Sprintf(" from %s in room %d", printable(c.User), c.Room)
	}
	switch {
	case c.Finished:
		return text + "; its copies were queued, and to whom is not kept"
	case c.Rejected:
		return text + "; it had no effect: its user floods, is banned or has left"
	case c.Paused:
		return text + "; it has no copies: its page is paused"
	}
	return text + fmt.Sprintf("; %d copies are not all queued yet", c.Copies)
}
