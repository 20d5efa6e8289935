package dispatch

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chatclub/internal/queue"
)

// halfOpen is a replica's connection to the broker on which from some moment on
// nothing travels any more. Nobody is told.
type halfOpen struct {
	queue.Broker
	since atomic.Pointer[time.Time]
}

// silentBroker has not answered for a while.
type silentBroker struct{ queue.Broker }

// IsSilent implements queue.Broker.
func (silentBroker) IsSilent() bool { return true }

// patienceOfTest is the longest silence of the broker that is allowed: rabbit's 1.5 s.
const patienceOfTest = 1500 * time.Millisecond

func (b *halfOpen) open() { now := time.Now(); b.since.Store(&now) }

// IsSilent implements queue.Broker.
func (b *halfOpen) IsSilent() bool {
	since := b.since.Load()
	return since != nil && time.Since(*since) > patienceOfTest
}

// Ready implements queue.Broker.
func (b *halfOpen) Ready() error {
	if b.IsSilent() {
		return queue.ErrUnavailable
	}
	return nil
}

// Consume implements queue.Broker.
func (b *halfOpen) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	inner, err := b.Broker.Consume(name, opts)
	if err != nil {
		return nil, err
	}
	s := halfOpenSubscription{inner, make(chan *queue.Delivery, opts.Prefetch)}
	go func() { // ends with the subscription
		defer close(s.out)
		for d := range inner.Deliveries() {
			s.out <- queue.NewDelivery(b, unheard{d, b}, 0, d.Message, d.Redelivered)
		}
	}()
	return s, nil
}

type halfOpenSubscription struct {
	queue.Subscription
	out chan *queue.Delivery
}

func (s halfOpenSubscription) Deliveries() <-chan *queue.Delivery { return s.out }

// unheard settles a delivery if that reaches the broker.
type unheard struct {
	inner *queue.Delivery
	via   *halfOpen
}

func (u unheard) Ack(uint64) error {
	if u.via.since.Load() != nil {
		return nil // it is written, and arrives nowhere
	}
	return u.inner.Ack()
}

func (u unheard) Live() bool { return !u.inner.Stale() }

// startHalfOpen starts replicas whose connections can become half open.
func (r *rig) startHalfOpen(n int) (links []*halfOpen) {
	r.start(n, func(c *Config) {
		b := &halfOpen{Broker: c.Broker}
		c.Broker, links = b, append(links, b)
	})
	r.sleep(3 * time.Second)
	return links
}

// backlog publishes texts of ten seconds at the page's limit, each for another
// person.
func (r *rig) backlog() { r.text("page0", guests("u", 10*300)...) }

// A connection is half open for ten seconds, until the broker gives it up, while
// its replica owns a page with a backlog. Its messages are sent by the next
// owner. Doubled are those of 1.5 s and the calls in flight; and while the two do
// not know of one another only one of them sends.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		links := r.startHalfOpen(2)
		r.backlog()
		r.sleep(2 * time.Second)
		owner := r.owner("page0")
		if owner < 0 {
			t.Fatal("the page has no owner")
		}
		cut := time.Now()
		links[owner].open()
		r.sleep(10 * time.Second)
		handed := time.Now()
		r.replicas[owner].link.die()
		r.sleep(20 * time.Second)

		const limit, latency = 300, 40 * time.Millisecond
		doubled := 0
		for _, n := range r.accepted {
			doubled += n - 1
		}
		most := int((patienceOfTest + 2*latency + silentPause).Seconds() * limit)
		if doubled > most || doubled == 0 {
			t.Errorf("doubled = %d, want at most %d, the sends of %s and the calls in flight, and some", doubled, most, patienceOfTest)
		}
		r.checkSent(1, 2)
		for _, c := range r.calls {
			if c.replica == owner && c.at.After(cut.Add(patienceOfTest+silentPause)) {
				t.Errorf("the replica called %s after its connection was half open, want %s at most", c.at.Sub(cut), patienceOfTest)
				break
			}
			if c.replica != owner && c.at.After(cut) && c.at.Before(handed) {
				t.Errorf("another replica called %s before it owned the page", handed.Sub(c.at))
				break
			}
		}
		r.end()
	})
}

// Replicas that are all behind all others, because nothing was answered, go on: nobody
// else is there.
func TestNobodyRestsAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, nil, func(t *testing.T, r *rig) {
		for _, p := range r.replicas {
			p.stepBack()
		}
		r.sleep(time.Second)
		r.text("page0", "ann")
		r.text("page1", "bob")
		r.sleep(time.Minute)
		r.checkSentOnce()
		for _, page := range []string{"page0", "page1"} {
			if w := r.waits(page); quantile(w, 1) > time.Second {
				t.Errorf("a message of %s waited %v, want no rest", page, quantile(w, 1))
			}
		}
	})
}
