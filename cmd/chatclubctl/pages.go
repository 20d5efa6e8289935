package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"chatclub/internal/dispatch"
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
	return "chatclubctl pages asks the admin ports of all replicas. Dispatchers tell which pages they own and have suspended,\n" +
		"core which are paused."
}

// pagesAtATime is the most that core lists at once.
const pagesAtATime = 1000

// pageView is a page as all replicas see it.
type pageView struct {
	Page        string          `json:"page"`
	Core        *operator.Page  `json:"core,omitempty"` // nil: core does not know it, or was not asked
	Dispatchers []ownedPage     `json:"dispatchers,omitempty"`
	Suspended   []suspendedPage `json:"suspended,omitempty"`
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
func (t tool) openPages(ctx context.Context, flags *flag.FlagSet, args []string) (*fleet, error) {
	s, err := service.LoadFlags[pagesSettings](flags, args, t.environ, t.stdout)
	if err != nil {
		return nil, err
	}
	if len(s.Dispatchers)+len(s.Core) == 0 {
		return nil, wrong(errors.New("DISPATCHERS or CORE must be set"))
	}
	return s.fleet(ctx), nil
}

// pages merges what all replicas know, those first that something keeps back. What
// is known is returned beside an error.
func (f *fleet) pages(ctx context.Context) ([]pageView, error) {
	views := make(map[string]*pageView)
	view := func(page string) *pageView {
		if views[page] == nil {
			views[page] = &pageView{Page: page}
		}
		return views[page]
	}
	statuses := make([]dispatch.Status, len(f.dispatchers))
	err := replicas.Each(f.dispatchers, func(i int, r replicas.Replica) error {
		return f.client.Ask(ctx, http.MethodGet, r.URL+"/pages", nil, &statuses[i])
	})
	for i, s := range statuses {
		for _, p := range s.Pages {
			v := view(p.Page)
			v.Dispatchers = append(v.Dispatchers, ownedPage{f.dispatchers[i].Name, p})
		}
		for _, p := range s.Suspended {
			v := view(p.Page)
			v.Suspended = append(v.Suspended, suspendedPage{f.dispatchers[i].Name, p})
		}
	}
	known, coreErr := f.corePages(ctx)
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
	return list, errors.Join(err, coreErr)
}

// corePages asks core for all pages, as many at a time as it lists.
func (f *fleet) corePages(ctx context.Context) (all []operator.Page, err error) {
	for after := ""; len(f.core) > 0; after = all[len(all)-1].Page {
		var answer struct {
			Pages []operator.Page `json:"pages"`
		}
		path := fmt.Sprintf("/pages?limit=%d&after=%s", pagesAtATime, url.QueryEscape(after))
		if err := f.askCore(ctx, http.MethodGet, path, nil, &answer); err != nil {
			return all, err
		}
		all = append(all, answer.Pages...)
		if len(answer.Pages) < pagesAtATime {
			break
		}
	}
	return all, nil
}

// rank orders pages: those that are kept back first, then those in excess.
func (v pageView) rank() int {
	switch {
	case len(v.Suspended) > 0 || v.Core != nil && v.Core.Paused:
		return 0
	case slices.ContainsFunc(v.Dispatchers, func(p ownedPage) bool { return p.Since != nil }):
		return 1
	}
	return 2
}

// state says what keeps the page back.
func (v pageView) state() string {
	var parts []string
	if v.Core != nil && v.Core.Paused {
		text := "paused"
		if v.Core.PausedUntil != nil {
			text += " until " + since(*v.Core.PausedUntil)
		}
		parts = append(parts, text+" ("+v.Core.PauseReason+")")
	}
	for _, s := range v.Suspended {
		why := "code " + s.Code
		if s.Code == "" {
			why = "no token"
		}
		parts = append(parts, fmt.Sprintf("suspended on %s (%s), probed at %s", s.Dispatcher, why, since(s.ProbeAt)))
	}
	return strings.Join(parts, ", ")
}

func (t tool) pagesList(ctx context.Context, _ string, args []string) error {
	flags := flag.NewFlagSet("chatclubctl pages list", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON, for programs")
	f, err := t.openPages(ctx, flags, args)
	if err != nil {
		return err
	}
	list, err := f.pages(ctx)
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
		page, state := printable(v.Page), printable(v.state())
		if len(v.Dispatchers) == 0 {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t-\t-\t-\t%s\n", page, members, state)
		}
		for _, p := range v.Dispatchers {
			excess := "-"
			if p.Since != nil {
				excess = since(*p.Since)
			}
			oldest := time.Duration(p.Oldest * float64(time.Second)).Round(time.Millisecond)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%g\t%g\t%d\t%s\t%s\n",
				page, members, p.Dispatcher, printable(p.Class), excess, p.Pace, p.Limit, p.Waiting, oldest, state)
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
	if len(f.core) == 0 {
		return wrong(errors.New("CORE must be set: core pauses pages"))
	}
	body := map[string]string{"reason": *reason}
	if *length != 0 {
		body["for"] = length.String()
	}
	if err := f.askCore(ctx, http.MethodPost, "/pages/"+url.PathEscape(page)+"/pause", body, nil); err != nil {
		return err
	}
	fmt.Fprintln(t.stdout, "paused in core")
	return nil
}

// pagesResume asks everybody, whoever fails: what can be resumed is.
func (t tool) pagesResume(ctx context.Context, page string, args []string) error {
	f, err := t.openPages(ctx, flag.NewFlagSet("chatclubctl pages resume PAGE", flag.ContinueOnError), args)
	if err != nil {
		return err
	}
	resumed := make([]bool, len(f.dispatchers))
	err = replicas.Each(f.dispatchers, func(i int, r replicas.Replica) (err error) {
		resumed[i], err = f.client.Resume(ctx, r.URL, page)
		return err
	})
	var where []string
	if len(f.core) > 0 {
		inCore, coreErr := replicas.Resumed(f.askCore(ctx, http.MethodPost, replicas.ResumePath(page), nil, nil))
		err = errors.Join(err, coreErr)
		if inCore {
			where = append(where, "in core")
		}
	}
	for i, r := range f.dispatchers {
		if resumed[i] {
			where = append(where, "on "+r.Name)
		}
	}
	if len(where) > 0 {
		fmt.Fprintln(t.stdout, "resumed "+strings.Join(where, ", "))
	} else if err == nil {
		err = fmt.Errorf("page %.40q is neither paused nor suspended", page)
	}
	return err
}
