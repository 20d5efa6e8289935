package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"chatclub/internal/dispatch"
	"chatclub/internal/replicas"
)

// answer is what a replica said of itself.
type answer struct {
	Replica
	status *dispatch.Status // nil: it was not asked, or did not answer
	err    error
}

// ask asks all replicas at once.
func (k *Console) ask(ctx context.Context) []answer {
	replicas := k.cfg.Replicas(ctx)
	answers := make([]answer, len(replicas))
	var asking sync.WaitGroup
	for i, r := range replicas {
		answers[i].Replica = r
		if r.URL == "" {
			continue
		}
		asking.Go(func() { answers[i].status, answers[i].err = k.get(ctx, r.URL) })
	}
	asking.Wait()
	return answers
}

func (k *Console) get(ctx context.Context, admin string) (*dispatch.Status, error) {
	var s dispatch.Status
	if err := k.client().Ask(ctx, http.MethodGet, admin+"/pages", nil, &s); err != nil {
		return nil, fmt.Errorf("ask a dispatcher: %w", err)
	}
	return &s, nil
}

func (k *Console) client() replicas.Client {
	return replicas.Client{HTTP: k.cfg.Client, Token: k.cfg.Token}
}

// resume is the action of an operator: a suspended page is sent to again.
const resume = "resume"

// resumePage resumes a page on every replica that has it suspended.
func (k *Console) resumePage(ctx context.Context, page string) error {
	var errs []error
	resumed := false
	for _, r := range k.cfg.Replicas(ctx) {
		here, err := k.client().Resume(ctx, r.URL, page)
		resumed = resumed || here
		if err != nil {
			errs = append(errs, fmt.Errorf("ask a dispatcher: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil || resumed {
		return err
	}
	return errors.New("no dispatcher has this page suspended")
}
