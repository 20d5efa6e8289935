package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/replicas"
)

// answer is a replica's answer about itself.
type answer struct {
	Replica
	status *dispatch.Status // nil: it was not asked, or did not answer
	err    error
}

// lookWait is the longest time that a look waits for answers.
const lookWait = time.Second

// Behind returns Config.Replicas, or Config.Core, for those behind addresses.
func Behind(addresses *replicas.Resolver) func(context.Context) []Replica {
	return func(ctx context.Context) (list []Replica) {
		for _, r := range addresses.Replicas(ctx) {
			list = append(list, Replica{Name: r.Name, URL: r.URL})
		}
		return list
	}
}

// ask asks all replicas at once.
func (k *Console) ask(ctx context.Context) []answer {
	list := k.cfg.Replicas(ctx)
	answers := make([]answer, len(list))
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	_ = replicas.Each(list, func(i int, r Replica) error {
		if answers[i].Replica = r; r.URL != "" {
			answers[i].status, answers[i].err = k.get(ctx, r.URL)
		}
		return nil // each has its own
	})
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

// The actions of an operator: nothing is sent for a page, and it is sent for again.
const (
	pause  = "pause"
	resume = "resume"
)

// operate does an action of an operator: it is an order, which all replicas obey.
func (k *Console) operate(ctx context.Context, action, page string) error {
	if action != resume && action != pause {
		return ErrUnknown
	}
	if page == "" {
		return errors.New("page: must be given")
	}
	f := k.fleet(ctx)
	if action == pause {
		return f.Pause(ctx, page, 0, "on the page")
	}
	return f.Resume(ctx, page)
}

// reached are the replicas that can be asked.
func reached(list []Replica) (all []replicas.Replica) {
	for _, r := range list {
		if r.URL != "" {
			all = append(all, replicas.Replica{Name: r.Name, URL: r.URL})
		}
	}
	return all
}
