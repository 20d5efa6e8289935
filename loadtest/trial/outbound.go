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
	"chatclub/loadtest/judge"
	"chatclub/loadtest/load"
)

// sampler draws pages by their weights and people at random. When things are due
// is drawn by a generator of its own: things are drawn in batches, whose sizes
// are a matter of timing, so that one generator for both would give each run
// another load.
type sampler struct {
	stream   Stream
	room     int    // members
	run      string // of this trial: begins the ids and the groups' names
	random   *rand.Rand
	arrivals *rand.Rand
	upTo     []float64
}

// DefaultPeople get the copies of a page where a stream does not say.
const DefaultPeople = 2000

// newSampler is of the n-th stream; of each n the same seed draws the same.
func newSampler(s Stream, room int, run string, seed, n uint64) *sampler {
	if s.People == 0 {
		s.People = DefaultPeople
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

// page draws a page.
func (d *sampler) page() string {
	x := d.random.Float64() * d.upTo[len(d.upTo)-1]
	i := sort.Search(len(d.upTo)-1, func(i int) bool { return x < d.upTo[i] })
	return d.stream.Pages[i].ID
}

// copies is how many messages one thing of the stream makes.
func (d *sampler) copies() int {
	if d.room == 0 {
		return 1
	}
	return d.room - 1
}

// writer draws the room and the place in it of who writes.
func (d *sampler) writer() (room, who int) {
	return d.random.IntN(d.stream.People / d.room), d.random.IntN(d.room)
}

// schedule is the stream's, of things that make several copies each.
func (d *sampler) schedule() load.Schedule {
	per := d.copies()
	segments := make([]load.Segment, len(d.stream.Segments))
	for i, g := range d.stream.Segments {
		segments[i] = load.Segment{Burst: (g.Burst + per - 1) / per, Rate: g.Rate / float64(per), For: g.For}
	}
	s := load.Schedule{Segments: segments}
	if d.stream.Poisson {
		s.Random = d.arrivals
	}
	return s
}

// outbound puts copies straight onto the queue.
type outbound struct {
	*sampler
	judge  *judge.Judge
	broker queue.Publisher
	queue  func(page string) string               // where copies for a page go
	encode func(message.Outbound) ([]byte, error) // what lies on the queue
	seq    int
}

// user is the id of a page's n-th user: others in every run, because on a
// running system those of an earlier run are in its rooms already.
func (d *sampler) user(page string, n int) string {
	h := fnv.New32a()
	h.Write([]byte(d.run + page))
	return fmt.Sprintf("1%010d%05d", h.Sum32(), n)
}

// do announces and publishes what is due, in order.
func (o *outbound) do(ctx context.Context, due []time.Time) error {
	var events []judge.Event
	var msgs []queue.Message
	for _, at := range due {
		page := o.page()
		o.seq++
		mid := o.mid(o.seq)
		well, sick := judge.Event{Page: page, Group: group(o.run, o.stream.Group), Due: at}, judge.Event{Page: page, Group: group(o.run, Sick), Due: at}
		for _, to := range o.recipients(page) {
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
	// Announced is as good as published: whatever becomes of ctx, what was
	// announced must be on the queue, or the system would be blamed for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	if err := o.judge.Announce(ctx, events...); err != nil {
		return errors.Join(err, excuse(ctx, o.judge, events...))
	}
	if err := o.broker.Publish(ctx, msgs...); err != nil {
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

// excuse takes back what was announced, as far as it was: it may not have been
// published.
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

func (o *outbound) recipients(page string) []string {
	if o.room == 0 {
		return []string{o.user(page, o.random.IntN(o.stream.People))}
	}
	room, who := o.writer()
	return o.others(page, room, who)
}

// mid is the id of the n-th event of the stream.
func (d *sampler) mid(n int) string { return fmt.Sprintf("m_%s.%x.%d", d.run, d.stream.Group, n) }

// group is the name under which the judge keeps a group of this run alone.
func group(run, name string) string { return run + "/" + name }

// others are a room's members but one.
func (d *sampler) others(page string, room, who int) []string {
	list := make([]string, 0, d.room-1)
	for n := range d.room {
		if n != who {
			list = append(list, d.user(page, room*d.room+n))
		}
	}
	return list
}
