package replicas

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"chatclub/internal/message"
)

// Fleet is a deployment as an operator asks it. The Client's HTTP must be set.
type Fleet struct {
	Client
	Dispatchers, Core, Webhook []Replica
}

// AskCore asks the cores in turn until one answers. They share a database, so one is
// enough.
func (f Fleet) AskCore(ctx context.Context, method, path string, body, answer any) error {
	return first(f.Core, func(r Replica) error { return f.Ask(ctx, method, r.URL+path, body, answer) })
}

// first asks replicas in turn until one answers. That it cannot do it, with a status of 500
// or more, is no answer: another one may.
func first(all []Replica, ask func(Replica) error) error {
	var errs []error
	for _, r := range all {
		err := ask(r)
		if answer, ok := errors.AsType[*StatusError](err); err == nil || ok && answer.Code < http.StatusInternalServerError {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// orderTimeout is longer than a program tries to give an order, 10 s: one that is not
// waited for would be given by the next program, too.
const orderTimeout = 12 * time.Second

// Order has one program give an order about a page, which all obey: the first that answers,
// cores before dispatchers.
func (f Fleet) Order(ctx context.Context, method, page, what string, body any) error {
	patient := *f.HTTP
	patient.Timeout = orderTimeout
	f.HTTP = &patient
	return first(slices.Concat(f.Core, f.Dispatchers), func(r Replica) error {
		return f.Ask(ctx, method, r.URL+"/pages/"+url.PathEscape(page)+"/"+what, body, nil)
	})
}

// Pause has nothing sent for a page. length 0: until it is resumed.
func (f Fleet) Pause(ctx context.Context, page string, length time.Duration, reason string) error {
	body := map[string]string{"reason": reason}
	if length != 0 {
		body["for"] = length.String()
	}
	return f.Order(ctx, http.MethodPost, page, "pause", body)
}

// Limit gives a page limits of its own, or with none those of the pages file or the settings.
func (f Fleet) Limit(ctx context.Context, page string, limits message.Limits) error {
	if limits == (message.Limits{}) {
		return f.Order(ctx, http.MethodDelete, page, "limits", nil)
	}
	return f.Order(ctx, http.MethodPut, page, "limits", limits)
}

// Resume has a page that is paused or suspended sent for again. Where there are cores, one
// gives the order, because it ends core's own pause of the page.
func (f Fleet) Resume(ctx context.Context, page string) error {
	if len(f.Core) > 0 {
		f.Dispatchers = nil
	}
	return f.Order(ctx, http.MethodPost, page, "resume", nil)
}
