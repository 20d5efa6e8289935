package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/operator"
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

// pageView is a page as all replicas see it.
type pageView struct {
	Page        string               `json:"page"`
	Core        *operator.Page       `json:"core,omitempty"` // nil: core does not know it, or was not asked
	Dispatchers []ownedPage          `json:"dispatchers,omitempty"`
	Suspended   []suspendedPage      `json:"suspended,omitempty"`
	Paused      *dispatch.PausedPage `json:"paused,omitempty"` // by an order
}

// ownedPage is one class of a page at the dispatcher that owns it.
type ownedPage struct {
	Dispatcher string `json:"dispatcher"`
	dispatch.PageStatus
}

// suspendedPage is a page that a dispatcher has suspended.
type suspendedPage struct {
	Dispatcher string `json:"dispatcher"`
	dispatch.SuspendedPage
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

// pagesOf merges what all replicas know, those first that something keeps back, and
// returns each dispatcher's answer beside it. An error comes with the known pages.
func pagesOf(ctx context.Context, f replicas.Fleet) ([]pageView, []dispatch.Status, error) {
	views := make(map[string]*pageView)
	view := func(page string) *pageView {
		if views[page] == nil {
			views[page] = &pageView{Page: page}
		}
		return views[page]
	}
	statuses := make([]dispatch.Status, len(f.Dispatchers))
	err := replicas.Each(f.Dispatchers, func(i int, r replicas.Replica) error {
		return f.Ask(ctx, http.MethodGet, r.URL+"/pages", nil, &statuses[i])
	})
	for i, s := range statuses {
		for _, p := range s.Pages {
			v := view(p.Page)
			v.Dispatchers = append(v.Dispatchers, ownedPage{f.Dispatchers[i].Name, p})
		}
		for _, p := range s.Paused {
			view(p.Page).Paused = &p
		}
		for _, p := range s.Suspended {
			v := view(p.Page)
			v.Suspended = append(v.Suspended, suspendedPage{f.Dispatchers[i].Name, p})
		}
	}
	known, coreErr := corePages(ctx, f)
	for i := range known {
		view(known[i].Page).Core = &known[i]
	}
	list := make([]pageView, 0, len(views))
	for _, v := range views {
		list = append(list, *v)
	}
	slices.SortFunc(list, func(a, b pageView) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Page, b.Page))
	})
	return list, statuses, errors.Join(err, coreErr)
}

// corePages asks core for all pages.
func corePages(ctx context.Context, f replicas.Fleet) ([]operator.Page, error) {
	if len(f.Core) == 0 {
		return nil, nil
	}
	return operator.AllPages(func(path string, answer any) error {
		return f.AskCore(ctx, http.MethodGet, path, nil, answer)
	})
}

// rank orders pages: those that are kept back first, then those in excess.
func (v pageView) rank() int {
	sick := slices.ContainsFunc(v.Dispatchers, func(p ownedPage) bool { return p.Sick })
	switch {
	case sick || len(v.Suspended) > 0 || v.Paused != nil || v.Core != nil && v.Core.Paused:
		return 0
	case slices.ContainsFunc(v.Dispatchers, func(p ownedPage) bool { return p.Since != nil }):
		return 1
	}
	return 2
}

// state says what keeps the page back.
func (v pageView) state() string {
	var parts []string
	paused := func(until *time.Time, reason string) {
		text := "paused"
		if until != nil {
			text += " until " + since(*until)
		}
		parts = append(parts, text+" ("+reason+")")
	}
	switch {
	case v.Core != nil && v.Core.Paused:
		paused(v.Core.PausedUntil, v.Core.PauseReason)
	case v.Paused != nil:
		paused(v.Paused.Until, strings.TrimSuffix("operator: "+v.Paused.Reason, ": "))
	}
	for _, s := range v.Suspended {
		part := fmt.Sprintf("suspended on %s (code %s), probed at %s", s.Dispatcher, s.Code, since(s.ProbeAt))
		if s.Code == "" {
			part = "suspended on " + s.Dispatcher + " (no token)"
		}
		parts = append(parts, part)
	}
	for _, p := range v.Dispatchers {
		if p.Sick {
			parts = append(parts, fmt.Sprintf("calls for it fail on %s, and it is probed", p.Dispatcher))
		}
		if p.HintUntil != nil {
			parts = append(parts, fmt.Sprintf("%s waits on %s until %s, as the platform asked", p.Class, p.Dispatcher, since(*p.HintUntil)))
		}
	}
	return strings.Join(parts, ", ")
}

// state says what keeps the page back, and what messages of this class wait for.
func (p ownedPage) state(v *pageView) string {
	text := v.state()
	if p.Waiting == 0 || p.Reason == "" {
		return text
	}
	switch p.Reason { //nolint:exhaustive // the others are not said yet
	case dispatch.WaitsForResume, dispatch.WaitsForPermission, dispatch.WaitsForBlock, dispatch.WaitsForPage, dispatch.WaitsForHint:
		if text != "" { // it says the same
			return text
		}
	}
	return strings.TrimPrefix(text+", waits "+p.waits(), ", ")
}

func (t tool) pagesList(ctx context.Context, _ string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl pages list", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	f, err := t.openPages(ctx, flags, args)
	if err != nil {
		return err
	}
	list, statuses, err := pagesOf(ctx, f)
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
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t-\t-\t-\t%s\n", page, members, printable(v.state()))
		}
		for _, p := range v.Dispatchers {
			excess := "-"
			if p.Since != nil {
				excess = since(*p.Since)
			}
			oldest := time.Duration(p.Oldest * float64(time.Second)).Round(time.Millisecond)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%g\t%g\t%d\t%s\t%s\n",
				page, members, p.Dispatcher, printable(p.Class), excess, p.Pace, p.Limit, p.Waiting, oldest, printable(p.state(&v)))
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
	return nil
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
	method, body, said := http.MethodPut, any(limits), "the page has the limits"
	if limits == (message.Limits{}) {
		method, body, said = http.MethodDelete, nil, "the page has the limits of the pages file or the settings"
	}
	if err := f.Order(ctx, method, page, "limits", body); err != nil {
		return err
	}
	fmt.Fprintln(t.stdout, said)
	return nil
}
