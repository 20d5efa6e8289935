package inquiry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/operator"
	"chatclub/internal/replicas"
)

// Page is a page as all replicas see it.
type Page struct {
	Page        string               `json:"page"`
	Core        *operator.Page       `json:"core,omitempty"` // nil: core does not know it, or was not asked
	Dispatchers []Owned              `json:"dispatchers,omitempty"`
	Suspended   []Suspended          `json:"suspended,omitempty"`
	Paused      *dispatch.PausedPage `json:"paused,omitempty"` // by an order
}

// Owned is one class of a page at the dispatcher that owns it.
type Owned struct {
	Dispatcher string `json:"dispatcher"`
	dispatch.PageStatus
}

// Suspended is a page that a dispatcher has suspended.
type Suspended struct {
	Dispatcher string `json:"dispatcher"`
	dispatch.SuspendedPage
}

// Pages merges what all replicas know, those first that something keeps back, and
// returns each dispatcher's answer beside it. An error comes with the known pages.
func Pages(ctx context.Context, f replicas.Fleet) ([]Page, []dispatch.Status, error) {
	views := make(map[string]*Page)
	view := func(page string) *Page {
		if views[page] == nil {
			views[page] = &Page{Page: page}
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
			v.Dispatchers = append(v.Dispatchers, Owned{f.Dispatchers[i].Name, p})
		}
		for _, p := range s.Paused {
			view(p.Page).Paused = &p
		}
		for _, p := range s.Suspended {
			v := view(p.Page)
			v.Suspended = append(v.Suspended, Suspended{f.Dispatchers[i].Name, p})
		}
	}
	known, coreErr := corePages(ctx, f)
	for i := range known {
		view(known[i].Page).Core = &known[i]
	}
	list := make([]Page, 0, len(views))
	for _, v := range views {
		v.Dispatchers = owners(v.Dispatchers)
		list = append(list, *v)
	}
	slices.SortFunc(list, func(a, b Page) int {
		return cmp.Or(cmp.Compare(a.Rank(), b.Rank()), strings.Compare(a.Page, b.Page))
	})
	return list, statuses, errors.Join(err, coreErr)
}

// owners drops what dispatchers tell of a page that another one has taken over: their counts
// are old. What they still hold is told.
func owners(list []Owned) []Owned {
	return slices.DeleteFunc(list, func(p Owned) bool {
		return !p.Owner && p.Waiting+p.InFlight == 0 && slices.ContainsFunc(list, func(o Owned) bool { return o.Owner && o.Class == p.Class })
	})
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

// Rank orders pages: those that are kept back first, then those in excess.
func (v Page) Rank() int {
	sick := slices.ContainsFunc(v.Dispatchers, func(p Owned) bool { return p.Sick })
	switch {
	case sick || len(v.Suspended) > 0 || v.Paused != nil || v.Core != nil && v.Core.Paused:
		return 0
	case slices.ContainsFunc(v.Dispatchers, func(p Owned) bool { return p.Since != nil }):
		return 1
	}
	return 2
}

// State says what keeps the page back.
func (v Page) State() string {
	var parts []string
	paused := func(until *time.Time, reason string) {
		text := "paused"
		if until != nil {
			text += " until " + Moment(*until)
		}
		parts = append(parts, text+" ("+reason+")")
	}
	byCore := v.Core != nil && v.Core.Paused
	if byCore {
		paused(v.Core.PausedUntil, v.Core.PauseReason)
	}
	// core tells of the order, if it knows it, in place of its own pause.
	if v.Paused != nil && (!byCore || !strings.HasPrefix(v.Core.PauseReason, "operator")) {
		paused(v.Paused.Until, strings.TrimSuffix("operator: "+v.Paused.Reason, ": "))
	}
	for _, s := range v.Suspended {
		part := fmt.Sprintf("suspended on %s (code %s), probed at %s", s.Dispatcher, s.Code, Moment(s.ProbeAt))
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
			parts = append(parts, fmt.Sprintf("%s waits on %s until %s, as the platform asked", p.Class, p.Dispatcher, Moment(*p.HintUntil)))
		}
	}
	return strings.Join(parts, ", ")
}

// State says what keeps the page back, and what messages of this class wait for.
func (p Owned) State(v *Page) string {
	text := v.State()
	if p.Waiting == 0 || p.Reason == "" {
		return text
	}
	switch p.Reason { //nolint:exhaustive // the others are not said yet
	case dispatch.WaitsForResume, dispatch.WaitsForPermission, dispatch.WaitsForBlock, dispatch.WaitsForPage, dispatch.WaitsForHint:
		if text != "" { // it says the same
			return text
		}
	}
	return strings.TrimPrefix(text+", waits "+p.Waits(), ", ")
}
