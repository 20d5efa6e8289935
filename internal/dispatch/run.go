package dispatch

import (
	"context"
	"sync"
	"time"

	"chatclub/internal/queue"
)

// askBroker bounds a question to the broker.
const askBroker = 2 * time.Second

// run is the part of one Run that all parts of the engine share. It belongs to the
// engine's goroutine, and knows none of them.
type run struct {
	*Dispatcher
	timers timers
	others sync.WaitGroup // goroutines beside the engine
	ending bool           // nothing more is taken or sent
}

// post has the engine call f, unless that has ended. It is for goroutines beside it.
func (r *run) post(f func()) { r.Dispatcher.post(func(*engine) { f() }) }

// beside runs f outside the engine, with a context that ends after most. Then it calls
// then in the engine, with f's error.
func (r *run) beside(most time.Duration, f func(ctx context.Context) error, then func(err error)) {
	r.others.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), most)
		defer cancel()
		err := f(ctx)
		r.post(func() { then(err) })
	})
}

// publish publishes messages beside the engine.
func (r *run) publish(most time.Duration, msgs []queue.Message, then func(err error)) {
	r.beside(most, func(ctx context.Context) error { return r.Broker.Publish(ctx, msgs...) }, then)
}

// askReady asks how many messages of a queue are on the broker and in nobody's hands.
func (r *run) askReady(name string, then func(ready int, err error)) {
	ready := 0
	r.beside(askBroker, func(ctx context.Context) error {
		info, err := r.Broker.Inspect(ctx, name)
		ready = info.Ready
		return err
	}, func(err error) { then(ready, err) })
}
