package trial

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sort"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/loadtest/cases"
	"chatclub/loadtest/judge"
	"chatclub/loadtest/load"
)

// sampler draws a stream's pages and people. When things are due is drawn by a
// generator of its own: things are drawn in batches, whose sizes are a matter of timing,
// so that one generator for both would give each run another load.
type sampler struct {
	stream   cases.Stream
	room     int    // members; 0: single copies
	run      string // of this trial: begins the ids and the groups' names
	random   *rand.Rand
	arrivals *rand.Rand
	upTo     []float64 // running sum of the pages' weights
	seq      int
}

// defaultPeople get the copies of a page where a stream does not say.
const defaultPeople = 2000

// newSampler is of the n-th stream; of each n the same seed draws the same.
func newSampler(s cases.Stream, room int, run string, seed, n uint64) *sampler {
	if s.People == 0 {
		s.People = defaultPeople
	}
	s.People = max(s.People, room)
	d := &sampler{
		stream: s, room: room, run: run,
		random: rand.New(rand.NewPCG(seed, 2*n)), arrivals: rand.New(rand.NewPCG(seed, 2*n+1)),
	}
	sum := 0.0
	for _, p := range s.Pages {
		sum += p.Weight
		d.upTo = append(d.upTo, sum)
	}
	return d
}

// draw draws the next thing: its page, who writes and who gets a copy.
func (d *sampler) draw() (page, from string, to []string) {
	n := d.seq
	d.seq++
	i := n % len(d.upTo)
	if !d.stream.InTurn {
		x := d.random.Float64() * d.upTo[len(d.upTo)-1]
		i = sort.Search(len(d.upTo)-1, func(i int) bool { return x < d.upTo[i] })
	}
	page = d.stream.Pages[i].ID
	if d.room == 0 {
		return page, "", []string{d.user(page, d.random.IntN(d.stream.People))}
	}
	room, who := d.random.IntN(d.stream.People/d.room), d.random.IntN(d.room)
	for n := range d.room {
		if n != who {
			to = append(to, d.user(page, room*d.room+n))
		}
	}
	return page, d.user(page, room*d.room+who), to
}

// user is the id of a page's n-th user: another in every run, because on a running
// system those of an earlier run are in its rooms already.
func (d *sampler) user(page string, n int) string {
	h := fnv.New32a()
	h.Write([]byte(d.run + page))
	return fmt.Sprintf("1%010d%05d", h.Sum32(), n)
}

// schedule is the stream's, of things that make several copies each.
func (d *sampler) schedule(s cases.Setting) load.Schedule {
	per := max(1, d.room-1)
	var segments []load.Segment
	for _, g := range d.stream.Schedule(s) {
		segments = append(segments, load.Segment{Burst: (g.Burst + per - 1) / per, Rate: g.Rate / float64(per), For: g.For})
	}
	schedule := load.Schedule{Segments: segments}
	if d.stream.Poisson {
		schedule.Random = d.arrivals
	}
	return schedule
}

// isSick reports whether a copy for someone cannot be sent.
func (d *sampler) isSick(page, to string) bool {
	s := d.stream.Ill
	if s == nil {
		return false
	}
	for n := range s.People {
		if d.user(page, n) == to {
			return true
		}
	}
	return s.People == 0
}

// sickness returns the faults that the platform is told to inject on the stream's pages.
func (d *sampler) sickness() (list []map[string]any) {
	s := d.stream.Ill
	if s == nil {
		return nil
	}
	for _, p := range d.stream.Pages {
		people := []string{""} // any
		for n := range s.People {
			people = append(people[:n], d.user(p.ID, n))
		}
		for _, to := range people {
			list = append(list, map[string]any{"code": s.Code, "hang": s.Hang.String(), "page": p.ID, "recipient": to})
		}
	}
	return list
}

// group is the name under which the judge keeps a group of this run alone.
func group(run, name string) string { return run + "/" + name }

// outbound puts copies straight onto the queue.
type outbound struct {
	*sampler
	judge  *judge.Judge
	broker queue.Publisher
	queue  func(page string) string               // where copies for a page go
	encode func(message.Outbound) ([]byte, error) // what lies on the queue
}

// do announces and publishes what is due, in order.
func (o *outbound) do(ctx context.Context, due []time.Time) error {
	var events []judge.Event
	var msgs []queue.Message
	for _, at := range due {
		page, _, people := o.draw()
		mid := fmt.Sprintf("m_%s.%x.%d", o.run, o.stream.Group, o.seq)
		well, sick := judge.Event{Page: page, Group: group(o.run, o.stream.Group), Due: at}, judge.Event{Page: page, Group: group(o.run, cases.Sick), Due: at}
		for _, to := range people {
			id := message.CopyID(page, mid, to, 0)
			body, err := o.encode(o.copy(id, page, to, at))
			if err != nil {
				return err
			}
			e := &well
			if o.isSick(page, to) {
				e = &sick
			}
			e.IDs = append(e.IDs, judge.ID{ID: id, To: to})
			msgs = append(msgs, queue.Message{Queue: o.queue(page), ID: id, Body: body})
		}
		for _, e := range []judge.Event{well, sick} {
			if e.IDs != nil {
				events = append(events, e)
			}
		}
	}
	// Announced is as good as published: whatever becomes of ctx, an announced message
	// must be on the queue, or the system would be blamed for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	err := o.judge.Announce(ctx, events...)
	if err == nil {
		err = o.broker.Publish(ctx, msgs...)
	}
	if err != nil {
		return errors.Join(err, excuse(ctx, o.judge, events...))
	}
	return nil
}

// copy is a message of the stream to one person.
func (o *outbound) copy(id, page, to string, at time.Time) message.Outbound {
	out := message.Outbound{ID: id, Page: page, To: to, Class: message.ClassText, Time: at.UnixMilli()}
	if o.stream.Audio {
		out.Class, out.Attachment = message.ClassMedia, &message.Attachment{Type: "audio", URL: "https://example.com/voice.ogg"}
	} else {
		out.Text, out.Joins = "Hello everybody", true
	}
	return out
}

// publishTimeout bounds the confirmation of one batch.
const publishTimeout = 30 * time.Second

// excuse takes back what was announced: it may not have been published.
func excuse(ctx context.Context, j *judge.Judge, events ...judge.Event) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	var ids []string
	for _, e := range events {
		for _, id := range e.IDs {
			ids = append(ids, id.ID)
		}
	}
	_, err := j.Excuse(ctx, ids...)
	return err
}
