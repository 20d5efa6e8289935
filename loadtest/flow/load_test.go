package flow

import (
	"context"
	"math/rand/v2"
	"sort"
	"strconv"
	"time"

	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/loadtest/load"
)

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
	return spread(map[int]float64{page: rate}, 2000)
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

// demand publishes the stream until the returned function is called.
func (r *rig) demand(s stream) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	rng := r.random()
	demand := load.Stream{
		Schedule: load.Schedule{Segments: []load.Segment{{Rate: s.rate, For: 24 * time.Hour}}, Random: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))},
		Do: func(_ context.Context, due []time.Time) error {
			msgs := make([]queue.Message, len(due))
			for i := range msgs {
				page, to := s.draw(rng)
				msgs[i] = r.message(copyOf{page: page, to: to})
			}
			r.publish(msgs)
			return nil
		},
	}
	r.work.Go(func() { r.must(load.Run(ctx, time.Now(), new(load.Tally), demand)) })
	return cancel
}

// publish publishes without waiting for the confirmation.
func (r *rig) publish(msgs []queue.Message) {
	r.work.Go(func() { r.must(r.fleet.Broker().Publish(context.Background(), msgs...)) })
}

// copyOf says which message is to be made.
type copyOf struct {
	page, to int
	media    bool
	change   func(*message.Outbound)
}

// message makes the next message of a page, announced to the judge.
func (r *rig) message(c copyOf) queue.Message {
	id := r.record.enter(c.page, c.to)
	name, recipient := strconv.Itoa(c.page), strconv.Itoa(1_000_000+c.to)
	r.fleet.API().Ledger().Announce(name, ledger.Expected{ID: id, Recipient: recipient}).Answered()
	out := message.Outbound{ID: id, Page: name, To: recipient, Time: time.Now().UnixMilli()}
	if c.media {
		out.Class, out.Attachment = message.ClassMedia, &message.Attachment{Type: "audio", URL: "https://example.com/a.ogg"}
	} else {
		out.Class, out.Text, out.Joins = message.ClassText, "Ann: hello", true
	}
	if c.change != nil {
		c.change(&out)
	}
	body, err := out.Encode()
	if err != nil {
		r.t.Error(err)
	}
	return queue.Message{Queue: r.partition(c.page), ID: id, Body: body}
}

// backlog publishes n messages of one page at once.
func (r *rig) backlog(page, n, recipients int) {
	rng := r.random()
	msgs := make([]queue.Message, 0, n)
	for i := range n {
		to := i
		if recipients < n {
			to = rng.IntN(recipients)
		}
		msgs = append(msgs, r.message(copyOf{page: page, to: to}))
	}
	r.publish(msgs)
}

// room is people on a page.
type room struct{ page, first, size int }

// event makes something happen in a room: everybody gets a copy.
func (r *rig) event(m room) {
	msgs := make([]queue.Message, m.size)
	for i := range msgs {
		msgs[i] = r.message(copyOf{page: m.page, to: m.first + i})
	}
	r.publish(msgs)
}

// speaks makes events in a room at equal distances, the first at a random time
// within one, until the run has lasted so long.
func (r *rig) speaks(m room, every, until time.Duration) {
	offset := time.Duration(r.rng.Int64N(int64(every)))
	r.work.Go(func() {
		for wait := offset; r.now()+wait < until && backoff.Sleep(r.ctx, wait); wait = every {
			r.event(m)
		}
	})
}

// repeats publishes a message every so often, until the run has lasted so long.
func (r *rig) repeats(every, until time.Duration, next func(n int) copyOf) {
	r.work.Go(func() {
		for n := 0; r.now() < until; n++ {
			r.publish([]queue.Message{r.message(next(n))})
			time.Sleep(every)
		}
	})
}

// fanOut is the number of copies of one event in a room.
const fanOut = 100

// series returns the calls that the ledger counted in a window of whole seconds: of a
// page, or of all together where it is 0.
func (r *rig) series(page int, w window) (sum ledger.Cell) {
	q := ledger.Query{Seconds: int(r.now().Seconds()) + 2}
	if page > 0 {
		q.Page, q.Pages = strconv.Itoa(page), 1
	}
	report := r.fleet.API().Ledger().Report(q)
	series := report.Series
	if len(report.Pages) > 0 {
		series = report.Pages[0].Series
	}
	for _, s := range series {
		if at := time.Unix(s.Unix, 0).Sub(r.record.start); at >= w.from && at < w.to {
			sum.Accepted += s.Text.Accepted
			sum.Refused += s.Text.Refused
		}
	}
	return sum
}

// refusedOfAll enters the refusals per send on all pages until a time.
func (r *rig) refusedOfAll(until time.Duration) {
	c := r.series(0, window{0, until})
	r.figures[refusedStart] = float64(c.Refused) / float64(max(c.Accepted, 1))
}
