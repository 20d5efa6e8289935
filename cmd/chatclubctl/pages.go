package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"chatclub/internal/inquiry"
	"chatclub/internal/message"
	"chatclub/internal/replicas"
	"chatclub/internal/service"
)

// pagesSettings are those of `chatclubctl pages`.
type pagesSettings struct {
	adminSettings
}

// About says what the program does.
func (pagesSettings) About() string {
	return "chatclubctl pages asks the admin ports of all replicas. Dispatchers tell which pages they own, have suspended and\n" +
		"must not send for, core which are paused. pause, resume and limit are orders for all dispatchers, and stay."
}

// openPages reads flags and settings, and finds the replicas.
func (t tool) openPages(ctx context.Context, flags *flag.FlagSet, args []string) (f replicas.Fleet, err error) {
	s, err := service.LoadFlags[pagesSettings](flags, args, t.environ, t.stdout)
	if err != nil {
		return f, err
	}
	if len(s.Dispatchers)+len(s.Core) == 0 {
		return f, wrong(errors.New("DISPATCHERS or CORE must be set"))
	}
	return s.fleet(ctx), nil
}

func (t tool) pagesList(ctx context.Context, _ string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl pages list", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	f, err := t.openPages(ctx, flags, args)
	if err != nil {
		return err
	}
	list, statuses, err := inquiry.Pages(ctx, f)
	if *asJSON {
		return errors.Join(err, json.NewEncoder(t.stdout).Encode(map[string]any{"pages": list}))
	}
	w := newTable(t.stdout)
	fmt.Fprintln(w, "PAGE\tMEMBERS\tOWNER\tCLASS\tEXCESS SINCE\tPACE\tLIMIT\tWAITING\tOLDEST\tSTATE")
	for _, v := range list {
		members := "-"
		if v.Core != nil {
			members = fmt.Sprint(v.Core.Members)
		}
		page := printable(v.Page)
		if len(v.Dispatchers) == 0 {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t-\t-\t-\t%s\n", page, members, printable(v.State()))
		}
		for _, p := range v.Dispatchers {
			excess := "-"
			if p.Since != nil {
				excess = inquiry.Moment(*p.Since)
			}
			oldest := time.Duration(p.Oldest * float64(time.Second)).Round(time.Millisecond)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%g\t%g\t%d\t%s\t%s\n",
				page, members, p.Dispatcher, printable(p.Class), excess, p.Pace, p.Limit, p.Waiting, oldest, printable(p.State(&v)))
		}
	}
	if len(statuses) > 0 {
		fmt.Fprintln(w, "\nDISPATCHER\tAPI\tIN FLIGHT\tLIMIT\tPARTITIONS")
	}
	for i, s := range statuses {
		api := "up"
		if s.APIDown {
			api = "down"
		}
		if s.Limit > 0 { // otherwise it has not answered, and the error names it
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", f.Dispatchers[i].Name, api, s.InFlight, s.Limit, len(s.Partitions))
		}
	}
	return errors.Join(err, w.Flush())
}

func (t tool) pagesPause(ctx context.Context, page string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl pages pause PAGE", flag.ContinueOnError)
	length := flags.Duration("for", 0, "how long, such as 1h; 0: until it is resumed")
	reason := flags.String("reason", "", "`WORDS` that pages list shows")
	f, err := t.openPages(ctx, flags, args)
	if err != nil {
		return err
	}
	if err := f.Pause(ctx, page, *length, *reason); err != nil {
		return err
	}
	until := "until it is resumed"
	if *length != 0 {
		until = "for " + length.String()
	}
	fmt.Fprintln(t.stdout, "paused", until)
	t.doubt(ctx, f, page)
	return nil
}

// doubt says that nobody knows the page of an order, which may be a typing error. Nothing is said
// where a program does not answer.
func (t tool) doubt(ctx context.Context, f replicas.Fleet, page string) {
	list, _, err := inquiry.Pages(ctx, f)
	knows := func(v inquiry.Page) bool {
		return v.Page == page && (v.Core != nil || len(v.Dispatchers)+len(v.Suspended) > 0)
	}
	if err == nil && !slices.ContainsFunc(list, knows) {
		fmt.Fprintf(t.stdout, "no program has seen page %s yet: is it the page that you mean?\n", printable(page))
	}
}

func (t tool) pagesResume(ctx context.Context, page string, args []string) error {
	f, err := t.openPages(ctx, flag.NewFlagSet("chatclubctl pages resume PAGE", flag.ContinueOnError), args)
	if err != nil {
		return err
	}
	if err := f.Resume(ctx, page); err != nil {
		return err
	}
	fmt.Fprintln(t.stdout, "resumed")
	return nil
}

func (t tool) pagesLimit(ctx context.Context, page string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl pages limit PAGE", flag.ContinueOnError)
	var limits message.Limits
	flags.Float64Var(&limits.Text, "text", 0, "calls per second; 0: as the pages file or the settings say")
	flags.Float64Var(&limits.Media, "media", 0, "calls per second with audio or video; 0: the same")
	flags.Float64Var(&limits.Recipient, "recipient", 0, "calls per second to one person; 0: the same")
	f, err := t.openPages(ctx, flags, args)
	if err != nil {
		return err
	}
	if err := f.Limit(ctx, page, limits); err != nil {
		return err
	}
	said := "the page has the limits"
	if limits == (message.Limits{}) {
		said = "the page has the limits of the pages file or the settings"
	}
	fmt.Fprintln(t.stdout, said)
	t.doubt(ctx, f, page)
	return nil
}
