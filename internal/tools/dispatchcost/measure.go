package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/backoff"
	"chatclub/internal/loadtest/paired"
	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
)

// side is one of the two that are compared.
type side struct {
	sideConfig
	process *process
	broker  *rabbit.Broker // to publish with

	messages, requests int64 // of the loads that count
}

// bench is one run of the program.
type bench struct {
	config
	judge  *judge
	sides  [2]*side
	sent   int // messages so far: no id may come twice
	stdout io.Writer
}

// measure starts everything, loads the sides in turn and prints what each pair,
// and all of them, came to.
func (c config) measure(ctx context.Context, stdout, stderr io.Writer) (err error) {
	url, stop, err := rabbittest.Find(ctx, stderr)
	if err != nil {
		return err
	}
	defer stop()
	b := &bench{config: c, stdout: stdout}
	fake, err := start(ctx, url, nameFake, c.side.args()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fake.stop()) }()
	b.judge = &judge{url: fake.hello}
	defer func() {
		for _, s := range b.sides {
			if s != nil {
				err = errors.Join(err, s.close(url))
			}
		}
	}()
	for i, name := range c.sides {
		if b.sides[i], err = c.open(ctx, name, url, fake.hello); err != nil {
			return err
		}
	}
	for _, s := range b.sides { // opens connections, fills pools, lets the dispatcher join
		if _, err := b.load(ctx, s, c.messages/4+1); err != nil {
			return err
		}
		s.messages, s.requests = 0, 0
	}
	return b.pair(ctx)
}

// open starts a side with queues of its own.
func (c config) open(ctx context.Context, name, url, graph string) (*side, error) {
	s := &side{sideConfig: c.side}
	s.Name, s.Graph, s.Prefix = name, graph, fmt.Sprintf("dispatchcost-%016x", rand.Uint64())
	var err error
	if s.broker, err = rabbit.Open(rabbit.Config{URLs: []string{url}, Topology: s.topology(), Name: "dispatchcost"}); err != nil {
		return nil, err
	}
	for s.broker.Ready() != nil { // it declares the queues
		if !backoff.Sleep(ctx, 50*time.Millisecond) {
			return nil, errors.Join(ctx.Err(), s.broker.Close())
		}
	}
	if s.process, err = start(ctx, url, name, s.args()...); err != nil {
		return nil, errors.Join(err, s.broker.Close())
	}
	return s, nil
}

// close ends the side, checks that it left nothing on its queues, and deletes
// them.
func (s *side) close(url string) error {
	err := errors.Join(s.process.stop(), s.broker.Close())
	conn, dialErr := amqp.Dial(url)
	if dialErr != nil {
		return errors.Join(err, dialErr)
	}
	defer func() { _ = conn.Close() }()
	ch, chErr := conn.Channel()
	if chErr != nil {
		return errors.Join(err, chErr)
	}
	for _, q := range s.topology().Specs() {
		left, delErr := ch.QueueDelete(q.Name, false, false, false)
		if delErr != nil {
			return errors.Join(err, delErr)
		}
		if left > 0 {
			err = errors.Join(err, fmt.Errorf("%s left %d messages on %s", s.Name, left, q.Name))
		}
	}
	return err
}

// pair loads the sides in turn.
func (b *bench) pair(ctx context.Context) error {
	var costs [2][]float64
	var runs []paired.Run
	for i := range b.pairs {
		for _, n := range paired.Order(i, 0, 1) {
			cost, err := b.load(ctx, b.sides[n], b.messages)
			if err != nil {
				return err
			}
			costs[n] = append(costs[n], cost)
			runs = append(runs, paired.Run{Base: n == 0, Cost: cost})
		}
		fmt.Fprintf(b.stdout, "pair %d: %s %.1f µs, %s %.1f µs of CPU a message: %.3f\n",
			i+1, b.sides[0].Name, costs[0][i], b.sides[1].Name, costs[1][i], costs[1][i]/costs[0][i])
	}
	for i, s := range b.sides {
		fmt.Fprintf(b.stdout, "%s: median %.1f µs of CPU a message, %.2f messages a request\n",
			s.Name, paired.Median(costs[i]), float64(s.messages)/float64(max(1, s.requests)))
	}
	c := paired.Compare(runs)
	b.print("ratio", c.Ratios)
	if len(c.Controls) > 0 {
		b.print("control (the same side twice)", c.Controls)
		fmt.Fprintf(b.stdout, "at most %g: %s\n", b.limit, c.Judge(b.limit))
	}
	return nil
}

func (b *bench) print(what string, list []float64) {
	low, high := paired.Interval(list)
	fmt.Fprintf(b.stdout, "%s: median %.3f, 95 %% interval %.3f to %.3f, lowest %.3f, highest %.3f\n",
		what, paired.Median(list), low, high, slices.Min(list), slices.Max(list))
}

// settleTime is for the last acknowledgements. What a side costs while it idles
// is counted, too.
const settleTime = 100 * time.Millisecond

// load has n messages sent by s and returns what one of them cost it, in µs of
// CPU time.
func (b *bench) load(ctx context.Context, s *side, n int) (float64, error) {
	batch := b.crowd(s.topology().Outbound(), s.Name, n)
	if err := b.judge.expect(ctx, batch); err != nil {
		return 0, err
	}
	before, err := s.process.used()
	if err != nil {
		return 0, err
	}
	if err := b.publish(ctx, s, batch); err != nil {
		return 0, err
	}
	if err := b.judge.await(ctx, b.sent); err != nil {
		return 0, fmt.Errorf("load %s: %w", s.Name, err)
	}
	if !backoff.Sleep(ctx, settleTime) {
		return 0, ctx.Err()
	}
	after, err := s.process.used()
	s.messages, s.requests = s.messages+int64(n), s.requests+after.requests-before.requests
	return float64(after.cpu-before.cpu) / float64(n), err
}

// publish publishes at the rate that was asked for.
func (b *bench) publish(ctx context.Context, s *side, batch []queue.Message) error {
	const most = 500 // about the broker's window of unconfirmed messages
	begin := time.Now()
	for done := 0; done < len(batch); {
		n := min(most, len(batch)-done)
		if b.rate > 0 { // what is due by now, every 5 ms
			if !backoff.Sleep(ctx, 5*time.Millisecond) {
				return ctx.Err()
			}
			n = min(n, int(time.Since(begin).Seconds()*float64(b.rate))-done)
		}
		if n <= 0 {
			continue
		}
		if err := s.broker.Publish(ctx, batch[done:done+n]...); err != nil {
			return err
		}
		done += n
	}
	return nil
}
