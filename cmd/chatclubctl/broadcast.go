package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"

	"chatclub/internal/inquiry"
	"chatclub/internal/operator"
	"chatclub/internal/replicas"
	"chatclub/internal/rooms"
	"chatclub/internal/service"
)

// broadcastSettings are those of `chatclubctl broadcast`.
type broadcastSettings struct{ coreSettings }

// About says what the program does.
func (broadcastSettings) About() string {
	return "chatclubctl broadcast sends a text to the rooms of a page, behind everything else, and shows how far it is.\n" +
		"It asks core's admin port, which names the field of what is wrong."
}

// broadcastCall is one call of a broadcast command.
type broadcastCall struct {
	tool
	replicas.Fleet
	flags *flag.FlagSet
	json  *bool
}

func (t tool) newBroadcastCall(words string) *broadcastCall {
	c := &broadcastCall{tool: t, flags: flag.NewFlagSet("chatclubctl "+words, flag.ContinueOnError)}
	c.json = c.flags.Bool("json", false, "print JSON, for programs")
	return c
}

// open reads flags and settings, and finds the cores.
func (c *broadcastCall) open(ctx context.Context, args []string) error {
	s, err := service.LoadFlags[broadcastSettings](c.flags, args, c.environ, c.stdout)
	switch {
	case err != nil:
		return err
	case len(s.Core) == 0:
		return wrong(errors.New("CORE must be set: core makes broadcasts"))
	}
	c.Fleet = s.fleet(ctx)
	return nil
}

// print prints an answer as JSON, or otherwise has show show it.
func (c *broadcastCall) print(answer any, show func() error) error {
	if *c.json {
		return json.NewEncoder(c.stdout).Encode(answer)
	}
	return show()
}

func (t tool) broadcastStart(ctx context.Context, page string, args []string) error {
	c := t.newBroadcastCall("broadcast start PAGE")
	request := operator.BroadcastRequest{Page: page}
	c.flags.StringVar(&request.Text, "text", "", "the `TEXT`; it must be given")
	c.flags.IntVar(&request.Room, "room", 0, "`NUMBER` of the only room that gets it; 0: all rooms of the page")
	c.flags.Float64Var(&request.Rate, "rate", 0, "messages a second at most; 0: 30, or the page's limit if that is lower")
	c.flags.StringVar(&request.ID, "id", "", "the broadcast's `ID`: to start one of the same id again changes nothing; empty: a new one")
	within := c.flags.Duration("within", 0, "not sent later than in this time, such as 2h, 24h at most; 0: an hour")
	if err := c.open(ctx, args); err != nil {
		return err
	}
	if request.ID == "" { // from here, so that a second core that is asked does not begin another one
		request.ID = rand.Text()
	}
	if *within != 0 {
		request.Within = within.String() // not a moment, which would be another one the next time
	}
	var answer struct {
		ID         string `json:"id"`
		Recipients int    `json:"recipients"`
		State      string `json:"state"`
	}
	if err := c.AskCore(ctx, http.MethodPost, "/broadcast", request, &answer); err != nil {
		return fmt.Errorf("broadcast %s: %w", request.ID, err)
	}
	return c.print(answer, func() error {
		_, err := fmt.Fprintf(c.stdout, "broadcast %s is %s, for %d recipients\n", printable(answer.ID), printable(answer.State), answer.Recipients)
		return err
	})
}

func (t tool) broadcastList(ctx context.Context, _ string, args []string) error {
	c := t.newBroadcastCall("broadcast list")
	page := c.flags.String("page", "", "only those of this `PAGE`")
	limit := c.flags.Int("limit", 100, "broadcasts at most, the newest first, up to 1000")
	if err := c.open(ctx, args); err != nil {
		return err
	}
	var answer struct {
		Broadcasts []rooms.Broadcast `json:"broadcasts"`
	}
	query := url.Values{"limit": {fmt.Sprint(*limit)}}
	if *page != "" {
		query.Set("page", *page)
	}
	if err := c.AskCore(ctx, http.MethodGet, "/broadcasts?"+query.Encode(), nil, &answer); err != nil {
		return err
	}
	return c.print(answer, func() error { return c.table(answer.Broadcasts...) })
}

func (t tool) broadcastShow(ctx context.Context, id string, args []string) error {
	return t.broadcastOne(ctx, "broadcast show ID", http.MethodGet, id, args)
}

func (t tool) broadcastStop(ctx context.Context, id string, args []string) error {
	return t.broadcastOne(ctx, "broadcast stop ID", http.MethodDelete, id, args)
}

// broadcastOne makes a request of one broadcast, and shows its new state.
func (t tool) broadcastOne(ctx context.Context, words, method, id string, args []string) error {
	c := t.newBroadcastCall(words)
	if err := c.open(ctx, args); err != nil {
		return err
	}
	var b rooms.Broadcast
	if err := c.AskCore(ctx, method, "/broadcasts/"+url.PathEscape(id), nil, &b); err != nil {
		return err
	}
	return c.print(b, func() error {
		if err := c.table(b); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.stdout, "\n%s\n", printable(b.Text))
		return err
	})
}

// table shows broadcasts. QUEUED is how many people have their messages on a queue.
func (c *broadcastCall) table(list ...rooms.Broadcast) error {
	w := newTable(c.stdout)
	fmt.Fprintln(w, "ID\tPAGE\tROOM\tSTATE\tQUEUED\tRECIPIENTS\tRATE\tCREATED\tDEADLINE")
	for i := range list {
		b := &list[i]
		room := "all"
		if b.Room != 0 {
			room = fmt.Sprint(b.Room)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%g\t%s\t%s\n", printable(b.ID), printable(b.Page), room, printable(string(b.State)),
			b.Queued, b.Recipients, b.Rate, inquiry.Moment(b.Created), inquiry.Moment(b.Deadline))
	}
	return w.Flush()
}
