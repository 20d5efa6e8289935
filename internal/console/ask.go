package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/replicas"
)

// answer is what a replica said of itself.
type answer struct {
	Replica
	status *dispatch.Status // nil: it was not asked, or did not answer
	err    error
}

// lookWait is how long a look waits for answers by default. One that hangs is waited
// for once.
const lookWait = 500 * time.Millisecond

// Behind returns Config.Replicas for the dispatchers behind addresses.
func Behind(addresses *replicas.Resolver) func(context.Context) []Replica {
	return func(ctx context.Context) (list []Replica) {
		for _, r := range addresses.Replicas(ctx) {
			list = append(list, Replica{Name: r.Name, URL: r.URL})
		}
		return list
	}
}

// newWatch returns what asks the replicas.
func (k *Console) newWatch() *replicas.Watch[*dispatch.Status] {
	return &replicas.Watch[*dispatch.Status]{
		Ask:  func(ctx context.Context, r replicas.Replica) (*dispatch.Status, error) { return k.get(ctx, r.URL) },
		Wait: k.cfg.Wait,
	}
}

// ask asks all replicas at once.
func (k *Console) ask(ctx context.Context) []answer {
	list := k.cfg.Replicas(ctx)
	answers := make([]answer, len(list))
	var asked []replicas.Replica
	var places []int
	for i, r := range list {
		answers[i].Replica = r
		if r.URL != "" {
			asked, places = append(asked, replicas.Replica{Name: r.Name, URL: r.URL}), append(places, i)
		}
	}
	for n, said := range k.watch.Look(ctx, asked) {
		a := &answers[places[n]]
		a.status, a.err = said.Value, said.Err
	}
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
	list := k.cfg.Replicas(ctx)
	here := make([]bool, len(list))
	err := replicas.Each(list, func(i int, r Replica) (err error) {
		if here[i], err = k.client().Resume(ctx, r.URL, page); err != nil {
			return fmt.Errorf("ask a dispatcher: %w", err)
		}
		return nil
	})
	if err != nil || slices.Contains(here, true) {
		return err
	}
	return errors.New("no dispatcher has this page suspended")
}
