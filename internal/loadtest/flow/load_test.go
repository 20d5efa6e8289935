package flow

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sort"
	"strconv"
	"sync"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/ledger"
	"chatclub/internal/backoff"
	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// tick is how often an open-loop generator publishes. It is fine against the
// 40 ms of a call, and coarse enough that a tick has work to do.
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

// demand publishes the stream until the returned function is called. Package
// load would draw other times of the same process, and some rows' bounds are on
// the worst of a few thousand draws.
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
				msgs = append(msgs, r.message(page, to, 0, r.topology().Outbound()))
			}
			if len(msgs) > 0 {
				r.publish(msgs)
			}
		}
	})
	return cancel
}

// publish publishes without waiting for the confirmation.
func (r *rig) publish(msgs []queue.Message) {
	r.work.Go(func() { r.must(r.fleet.Broker().Publish(context.Background(), msgs...)) })
}

// message makes the next message of a page for a queue, announced to the judge.
func (r *rig) message(page, to int, ideal time.Duration, where string) queue.Message {
	id := r.record.enter(page, to, ideal)
	name, recipient := strconv.Itoa(page), strconv.Itoa(1_000_000+to)
	r.fleet.API().Ledger().Announce(name, ledger.Expected{ID: id, Recipient: recipient}).Answered()
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
	r.publish(msgs)
}

// directly is where messages go without core's help.
func (r *rig) directly(int) string { return r.topology().Outbound() }

// throughCore is where core puts messages: what outruns a page's limit by more
// than a second's worth goes to the page's lane. It asks core's gate with core's
// settings, as one core.
func (r *rig) throughCore() func(page int) string {
	gate := excess.New(excess.Config{
		Limit: func(string) float64 { return pageLimit }, Burst: time.Second, LaneHold: lanePrefetch,
	}, r.record.start)
	return func(page int) string {
		k := excess.Key{Page: strconv.Itoa(page), Class: string(message.ClassText)}
		d := gate.Offer(time.Now(), k, false)
		switch d.Action {
		case excess.Send:
			gate.Done(time.Now(), d.Permit, excess.Other)
			return r.topology().Outbound()
		case excess.Wait:
			gate.Overflow(time.Now(), k, 1)
		case excess.Overflow:
		}
		return r.topology().LaneOf(k.Page)
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
		for wait := offset; backoff.Sleep(r.ctx, wait); wait = every {
			var msgs []queue.Message
			for k := range events * fanOut {
				ideal := time.Duration(k) * time.Second / pageLimit
				msgs = append(msgs, r.message(page, k, ideal, r.topology().Outbound()))
			}
			r.publish(msgs)
		}
	})
}

// series returns what the ledger counted in a window of whole seconds: of a
// page, or of all together where it is empty.
func (r *rig) series(page string, w window) (sum ledger.Cell) {
	q := ledger.Query{Page: page, Seconds: int(r.now().Seconds()) + 2}
	if page != "" {
		q.Pages = 1
	}
	report := r.fleet.API().Ledger().Report(q)
	series := report.Series
	if page != "" && len(report.Pages) > 0 {
		series = report.Pages[0].Series
	}
	for _, s := range series {
		at := time.Unix(s.Unix, 0).Sub(r.record.start)
		if at >= w.from && at < w.to {
			sum.Accepted += s.Text.Accepted
			sum.Refused += s.Text.Refused
		}
	}
	return sum
}

// calls counts the calls of one page in a window of whole seconds, without
// those of another app.
func (r *rig) calls(page int, w window) (accepted, refused int) {
	c := r.series(strconv.Itoa(page), w)
	other := r.other.in(w)
	return int(c.Accepted) - other.accepted, int(c.Refused) - other.refused
}

// otherApp is another app on the hot page.
type otherApp struct {
	mu    sync.Mutex
	cells []calls // by seconds of the run
}

type calls struct{ accepted, refused int }

func (o *otherApp) in(w window) (sum calls) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := int(w.from / time.Second); i < int(w.to/time.Second) && i < len(o.cells); i++ {
		sum.accepted += o.cells[i].accepted
		sum.refused += o.cells[i].refused
	}
	return sum
}

func (o *otherApp) count(at time.Duration, accepted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for int(at/time.Second) >= len(o.cells) {
		o.cells = append(o.cells, calls{})
	}
	if c := &o.cells[at/time.Second]; accepted {
		c.accepted++
	} else {
		c.refused++
	}
}

// disturb is another app on the hot page, which sends rate messages a second,
// evenly but for a jitter, until the run ends.
func (r *rig) disturb(rate float64) {
	gap := time.Duration(float64(time.Second) / rate)
	rng := r.random()
	r.work.Go(func() {
		var resp fakeapi.Response
		for n := 0; backoff.Sleep(r.ctx, time.Duration((0.5+rng.Float64())*float64(gap))); n++ {
			r.fleet.API().Do(&fakeapi.Request{
				Method: http.MethodPost, Path: fmt.Appendf(nil, "/v23.0/%d/messages", hot),
				Authorization: fmt.Appendf(nil, "Bearer token-%d", hot), ContentType: []byte("application/json"),
				Body: fmt.Appendf(nil, `{"recipient":{"id":"9%08d"},"messaging_type":"UPDATE","message":{"text":"x","metadata":"other-%d"}}`, n, n),
			}, &resp)
			r.other.count(r.now(), resp.Status == http.StatusOK)
		}
	})
}
