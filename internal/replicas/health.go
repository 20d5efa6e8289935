package replicas

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"chatclub/internal/queue"
)

// Health is what a program says of itself by /readyz.
type Health struct {
	Program string `json:"program"` // "webhook", "core" or "dispatcher"
	Name    string `json:"name"`
	Answers bool   `json:"answers"`
	Says    string `json:"says,omitempty"` // why it is not ready, or does not answer; empty: it is ready
}

// Health asks all programs, webhooks first, then cores, then dispatchers.
func (f Fleet) Health(ctx context.Context) (all []Health) {
	var asked []Replica
	for _, kind := range []struct {
		program string
		list    []Replica
	}{{"webhook", f.Webhook}, {"core", f.Core}, {"dispatcher", f.Dispatchers}} {
		for _, r := range kind.list {
			asked = append(asked, r)
			all = append(all, Health{Program: kind.program, Name: r.Name})
		}
	}
	_ = Each(asked, func(i int, r Replica) error {
		err := f.Ask(ctx, http.MethodGet, r.URL+"/readyz", nil, nil)
		said, ok := errors.AsType[*StatusError](err)
		switch h := &all[i]; {
		case err == nil:
			h.Answers = true
		case ok:
			h.Answers, h.Says = true, strings.TrimPrefix(said.Text, "not ready: ")
		default:
			h.Says = "does not answer: " + bare(err)
		}
		return nil // each has its own
	})
	return all
}

// bare is an error of Ask without the method and the address, which stand beside it.
func bare(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return err.Error()
}

// BrokerHealth is the state of the broker as one more client of it sees it.
type BrokerHealth struct {
	Version string `json:"version,omitempty"` // empty: it has not said
	Error   string `json:"error,omitempty"`   // why it takes no messages; empty: it does
	queue.Census
	CountError string `json:"count_error,omitempty"` // why not all was counted
}

// takesTimeout is the longest wait for the connection and one confirm.
const takesTimeout = 5 * time.Second

// AskBroker asks a broker until ctx ends, and no longer than takesTimeout where there is none. Queues are
// counted also on a broker that takes nothing.
func AskBroker(ctx context.Context, b queue.Broker) (h BrokerHealth) {
	counting, stop := context.WithCancel(ctx)
	defer stop()
	var asking sync.WaitGroup
	asking.Go(func() {
		var err error
		if h.Census, err = queue.Count(counting, b); err != nil {
			h.CountError = err.Error()
		}
	})
	h.Error = TakesNone(ctx, b)
	if v, ok := b.(interface{ Version() string }); ok {
		if h.Version = v.Version(); h.Version == "" && h.Error != "" {
			stop()
		}
	}
	asking.Wait()
	return h
}

// TakesNone returns why a broker takes no messages, "" if it does. It waits for takesTimeout at
// most.
func TakesNone(ctx context.Context, b queue.Broker) string {
	ctx, cancel := context.WithTimeout(ctx, takesTimeout)
	defer cancel()
	err := queue.Takes(ctx, b)
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "; ") // what follows is the other connection's, and mostly the same
	return strings.TrimPrefix(text, "publish connection: ")
}

// Ready is the number of messages on queues of some kinds. It is false if they could not be
// counted.
func (h *BrokerHealth) Ready(kinds ...string) (n int, known bool) {
	for _, name := range kinds {
		i := 0
		for i < len(h.Kinds) && h.Kinds[i].Name != name {
			i++
		}
		if i == len(h.Kinds) || h.Kinds[i].Ready < 0 {
			return 0, false
		}
		n += h.Kinds[i].Ready
	}
	return n, true
}
