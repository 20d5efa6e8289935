package flow

import (
	"context"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// tick is how often an open-loop generator publishes: fine against the 40 ms
// of a call, coarse enough that a tick has work to do.
const tick = 2 * time.Millisecond

// stream is an open-loop demand: rate messages a second, as a Poisson process,
// over pages with weights.
type stream struct {
	rate       float64
	pages      []int
	upTo       []float64 // running sum of the pages' weights
	recipients int       // of each page; every message draws one
}

// saturate is factor times the rate on one page.
func saturate(page int, rate float64) stream {
	return stream{rate: rate, pages: []int{page}, upTo: []float64{1}, recipients: 2000}
}

// spread is a stream over pages whose rates are given.
func spread(rates map[int]float64, recipients int) stream {
	s := stream{recipients: recipients}
	for page := range rates {
		s.pages = append(s.pages, page)
	}
	sort.Ints(s.pages) // so that a seed stands for one sequence
	for _, page := range s.pages {
		s.rate += rates[page]
		s.upTo = append(s.upTo, s.rate)
	}
	return s
}

func (s stream) draw(rng *rand.Rand) (page, to int) {
	i := 0
	if len(s.pages) > 1 {
		i = min(sort.SearchFloat64s(s.upTo, rng.Float64()*s.upTo[len(s.upTo)-1]), len(s.pages)-1)
	}
	return s.pages[i], rng.IntN(s.recipients)
}

// poisson draws a Poisson number, by multiplication; mean is small.
func poisson(rng *rand.Rand, mean float64) (n int) {
	limit := math.Exp(-mean)
	for p := rng.Float64(); p > limit; p *= rng.Float64() {
		n++
	}
	return n
}

// demand publishes the stream until the returned function is called.
func (r *rig) demand(s stream) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	rng := r.random()
	r.work.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			var msgs []queue.Message
			for range poisson(rng, s.rate*tick.Seconds()) {
				page, to := s.draw(rng)
				msgs = append(msgs, r.message(page, to, 0, r.top.Outbound()))
			}
			if len(msgs) > 0 {
				r.source.post(msgs, nil)
			}
		}
	})
	return cancel
}

// message makes the next message of a page for a queue, announced to the judge.
func (r *rig) message(page, to int, ideal time.Duration, where string) queue.Message {
	id := r.book.enter(page, to, ideal)
	name, recipient := strconv.Itoa(page), strconv.Itoa(1_000_000+to)
	r.platform.api.Ledger().Announce(name, ledger.Expected{ID: id, Recipient: recipient}).Answered()
	out := message.Outbound{
		ID: id, Page: name, To: recipient, Class: message.ClassText, Text: "x", Time: time.Now().UnixMilli(),
	}
	body, err := out.Encode()
	if err != nil {
		r.t.Error(err)
	}
	return queue.Message{Queue: where, ID: id, Body: body}
}

// backlog publishes n messages of one page at once, each on the queue that
// where says.
func (r *rig) backlog(page, n, recipients int, where func(page int) string) {
	rng := r.random()
	msgs := make([]queue.Message, 0, n)
	for range n {
		msgs = append(msgs, r.message(page, rng.IntN(recipients), 0, where(page)))
	}
	r.source.post(msgs, nil)
}

// directly is where messages go without core's help.
func (r *rig) directly(int) string { return r.top.Outbound() }

// throughCore is where core puts messages: what outruns a page's limit by more
// than a second's worth goes to the page's lane. It asks core's gate with core's
// settings, as one core.
func (r *rig) throughCore() func(page int) string {
	gate := excess.New(excess.Config{
		Limit: func(string) float64 { return pageLimit }, Burst: time.Second, LaneHold: lanePrefetch,
	}, r.book.start)
	return func(page int) string {
		k := excess.Key{Page: strconv.Itoa(page), Class: string(message.ClassText)}
		d := gate.Offer(time.Now(), k, false)
		switch d.Action {
		case excess.Send:
			gate.Done(time.Now(), d.Permit, excess.Other)
			return r.top.Outbound()
		case excess.Wait:
			gate.Overflow(time.Now(), k, 1)
		case excess.Overflow, excess.Return:
		}
		return r.top.LaneOf(k.Page)
	}
}

// fanOut is how many copies one event in a room makes.
const fanOut = 100

// bursts makes something happen in several rooms of a page at once, every so
// often: events × fanOut copies, to as many people. The k-th copy of a burst
// cannot be sent before k / pageLimit.
func (r *rig) bursts(page, events int, every time.Duration) {
	offset := time.Duration(r.rng.Int64N(int64(every)))
	r.work.Go(func() {
		for wait := offset; sleep(r.ctx, wait) == nil; wait = every {
			var msgs []queue.Message
			for k := range events * fanOut {
				ideal := time.Duration(k) * time.Second / pageLimit
				msgs = append(msgs, r.message(page, k, ideal, r.top.Outbound()))
			}
			r.source.post(msgs, nil)
		}
	})
}
