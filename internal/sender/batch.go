package sender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"chatclub/internal/message"
)

// MaxBatch is the platform's limit of calls in one batch request.
const MaxBatch = 50

// BatchConfig is what a Batcher needs. The zero value is not useful.
type BatchConfig struct {
	Sender *Sender       // required; its Config's other numbers hold for batch requests too
	Size   int           // calls in one request at most, 2 to MaxBatch
	Wait   time.Duration // how long a call waits for others of its page, above 0
}

// Batcher makes the calls of a Sender, several of one page in one request of
// the platform's batch interface. To its caller it is a Sender: each call has a
// Result of its own, and counts as one call against its page's limit. A call
// that finds no other within its wait is made by itself.
//
// A call whose part of the answer is missing is Transient: it may have been made
// or not. A request that fails as a whole, or is answered by one error, gives
// that to all its calls. Make one with NewBatcher. Safe for concurrent use.
type Batcher struct {
	BatchConfig

	mu      sync.Mutex
	pending map[string]*batch // by page; those that can still be joined
}

// batch is calls of one page that will be made together.
type batch struct {
	items   []message.Outbound
	full    chan struct{} // closed when no more may join
	done    chan struct{} // closed when results are there
	results []Result      // one for each of items
}

// NewBatcher makes a Batcher; the error names every fault of cfg.
func NewBatcher(cfg BatchConfig) (*Batcher, error) {
	var faults []error
	if cfg.Sender == nil {
		faults = append(faults, errors.New("Sender is missing"))
	}
	if cfg.Size < 2 || cfg.Size > MaxBatch {
		faults = append(faults, fmt.Errorf("Size %d must be 2 to %d", cfg.Size, MaxBatch))
	}
	if cfg.Wait <= 0 {
		faults = append(faults, fmt.Errorf("Wait %v must be positive", cfg.Wait))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("new batcher: %w", err)
	}
	return &Batcher{BatchConfig: cfg, pending: make(map[string]*batch)}, nil
}

// Send is Sender.Send, at most Wait later. The first call of a batch lends it
// its context: when that ends before anything was written, all are Canceled.
// So calls must share their context, as those of one dispatcher do.
func (b *Batcher) Send(ctx context.Context, o message.Outbound) Result {
	if ctx.Err() != nil || !validPage(o.Page) {
		return b.Sender.Send(ctx, o) // makes no call
	}
	q, place := b.join(o)
	if place > 0 {
		<-q.done // bounded by the first's wait and call
		return q.results[place]
	}
	timer := time.NewTimer(b.Wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.full:
	case <-ctx.Done():
	}
	b.leave(o.Page, q)
	q.results = make([]Result, len(q.items))
	b.Sender.deliver(ctx, q.items, q.results)
	close(q.done)
	return q.results[0]
}

// join puts o into its page's batch; at place 0 begins a new one, whose request
// is for the caller to make.
func (b *Batcher) join(o message.Outbound) (q *batch, place int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q = b.pending[o.Page]
	if q == nil {
		q = &batch{full: make(chan struct{}), done: make(chan struct{})}
		b.pending[o.Page] = q
	}
	q.items = append(q.items, o)
	if len(q.items) == b.Size {
		delete(b.pending, o.Page)
		close(q.full)
	}
	return q, len(q.items) - 1
}

// leave lets no call join q any more.
func (b *Batcher) leave(page string, q *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending[page] == q {
		delete(b.pending, page)
	}
}

// errNoPart is why a call of a batch is Transient whose answer is null or
// missing.
var errNoPart = errors.New("the batch's answer has no part for it")

// classifyBatch is Classify for the answer to a batch. That is a list with
// status and body of each call, in their order, or one error for all.
func classifyBatch(status int, body []byte, results []Result) {
	var parts []*struct {
		Code int    `json:"code"`
		Body string `json:"body"`
	}
	if err := json.Unmarshal(body, &parts); err != nil {
		r := Classify(status, body)
		if r.Outcome == Sent { // of the request, which says nothing about the calls
			r = Result{Outcome: Transient, Status: status, Err: errNoPart}
		}
		fill(results, r)
		return
	}
	for i := range results {
		if i < len(parts) && parts[i] != nil {
			results[i] = Classify(parts[i].Code, []byte(parts[i].Body))
		} else {
			results[i] = Result{Outcome: Transient, Status: status, Err: errNoPart}
		}
	}
}
