package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory/memorytest"
)

// link is one program's connection to the broker. It can be silent (nothing passes, and all
// of it arrives later), cut (all of that is lost; subscriptions come back with the
// connection), and dead (the process is killed).
type link struct {
	w    *world
	name string

	mu    sync.Mutex
	dead  bool
	isCut bool
	gate  chan struct{} // nil: all passes
	since time.Time
	ops   []*op // written while silent, in order
	subs  []*linkSub
	// leaving has the broker's subscriptions of which the broker has not heard yet that they
	// end: it is in ops.
	leaving []queue.Subscription
}

type op struct {
	do   func() error
	done chan struct{}
	err  error
}

var errLost = errors.New("connection lost")

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// has reports whether a subscription of the broker is the link's.
func (l *link) has(inner queue.Subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.subs, func(s *linkSub) bool { return s.inner == inner })
}

func (l *link) Topology() queue.Topology { return l.w.top }
func (l *link) Close() error             { return nil }

func (l *link) IsSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gate != nil && time.Since(l.since) > 2*time.Second
}

func (l *link) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead || l.isCut {
		return queue.ErrUnavailable
	}
	if l.w.alarmed() != nil {
		return errors.New("alarm")
	}
	return nil
}

// send has something done at the broker: now, or once the silence is over.
func (l *link) send(ctx context.Context, do func() error) error {
	for {
		l.mu.Lock()
		if l.dead {
			l.mu.Unlock()
			return queue.ErrClosed
		}
		g, cut := l.gate, l.isCut
		if g == nil {
			l.mu.Unlock()
			return do()
		}
		if cut {
			l.mu.Unlock()
			select {
			case <-g:
				continue
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", queue.ErrUnavailable, ctx.Err())
			}
		}
		o := &op{do: do, done: make(chan struct{})}
		l.ops = append(l.ops, o)
		l.mu.Unlock()
		select {
		case <-o.done:
			if errors.Is(o.err, errLost) {
				continue
			}
			return o.err
		case <-ctx.Done(): // it may arrive all the same
			return fmt.Errorf("%w: %w", queue.ErrUnavailable, ctx.Err())
		}
	}
}

func (l *link) Publish(ctx context.Context, msgs ...queue.Message) error {
	if err := queue.ValidateAll(l.w.top, msgs); err != nil {
		return err
	}
	if len(msgs) == 0 {
		return nil
	}
	if a := l.w.alarmed(); a != nil {
		select {
		case <-a:
		case <-ctx.Done():
			return fmt.Errorf("%w: alarm", queue.ErrUnavailable)
		}
	}
	err := l.send(ctx, func() error {
		errs := make([]error, len(msgs))
		var pass []queue.Message
		var at []int
		for i, m := range msgs {
			if l.w.refuses(l.w.top.Target(m)) {
				errs[i] = fmt.Errorf("%s: %w", m.Queue, queue.ErrRefused)
				continue
			}
			pass, at = append(pass, m), append(at, i)
		}
		for _, m := range pass {
			l.w.publishing(l, m)
		}
		if len(pass) > 0 {
			if err := l.w.base.Publish(context.WithoutCancel(ctx), pass...); err != nil {
				for k, i := range at {
					errs[i] = queue.ErrorOf(err, k)
				}
			}
		}
		for i, m := range msgs {
			if errs[i] == nil {
				l.w.published(l, m)
			}
		}
		return queue.NewPublishError(errs)
	})
	if l.isDead() {
		return queue.ErrClosed
	}
	return err
}

func (l *link) Inspect(ctx context.Context, name string) (info queue.Info, err error) {
	got := make(chan struct{})
	var e2 error
	e := l.send(ctx, func() error {
		info, e2 = l.w.base.Inspect(context.Background(), name)
		close(got)
		return nil
	})
	if e != nil {
		return queue.Info{}, e
	}
	<-got
	return info, e2
}

func (l *link) Consume(name string, opts queue.ConsumeOptions) (queue.Subscription, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, queue.ErrClosed
	}
	l.w.note(l.name, fmt.Sprintf("CONSUME prio %d", opts.Priority), name, "")
	s := &linkSub{l: l, name: name, opts: opts, out: make(chan *queue.Delivery, 64), quit: make(chan struct{})}
	l.subs = append(l.subs, s)
	if l.gate == nil {
		if err := s.openLocked(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// linkSub is a subscription that outlives its connection.
type linkSub struct {
	l     *link
	name  string
	opts  queue.ConsumeOptions
	out   chan *queue.Delivery
	quit  chan struct{}
	pumps sync.WaitGroup

	// by l.mu
	inner  queue.Subscription
	closed bool
	given  int
}

func (s *linkSub) stream() bool { return s.name == s.l.w.top.Orders() }

func (s *linkSub) openLocked() error {
	if s.closed {
		return nil
	}
	inner, err := s.l.w.base.Consume(s.name, s.opts)
	if err != nil {
		return err
	}
	s.inner = inner
	skip := 0
	if s.stream() {
		skip = s.given
	}
	s.pumps.Go(func() { s.pump(inner, skip) })
	return nil
}

func (s *linkSub) pump(inner queue.Subscription, skip int) {
	for d := range inner.Deliveries() {
		if skip > 0 {
			skip--
			_ = d.Ack()
			continue
		}
		if !s.arrives(inner) {
			continue
		}
		s.l.w.note(s.l.name, "delivered", s.name, d.ID)
		wrapped := queue.NewDelivery(s.l, &settler{s, inner, d}, 0, d.Message, d.Redelivered)
		select {
		case s.out <- wrapped:
			s.l.mu.Lock()
			s.given++
			s.l.mu.Unlock()
		case <-s.quit:
		}
	}
}

// arrives waits while the link is silent.
func (s *linkSub) arrives(inner queue.Subscription) bool {
	for {
		s.l.mu.Lock()
		ok, g := !s.closed && !s.l.dead && s.inner == inner, s.l.gate
		s.l.mu.Unlock()
		if !ok || g == nil {
			return ok
		}
		select {
		case <-g:
		case <-s.quit:
		}
	}
}

func (s *linkSub) Deliveries() <-chan *queue.Delivery { return s.out }

func sever(s queue.Subscription) {
	if v, ok := s.(interface{ Sever() }); ok {
		v.Sever()
	}
}

func (s *linkSub) Close() error {
	s.l.mu.Lock()
	if s.closed {
		s.l.mu.Unlock()
		return nil
	}
	s.closed = true
	s.l.w.note(s.l.name, fmt.Sprintf("CLOSE prio %d", s.opts.Priority), s.name, "")
	close(s.quit)
	inner := s.inner
	for i, o := range s.l.subs {
		if o == s {
			s.l.subs = append(s.l.subs[:i:i], s.l.subs[i+1:]...)
			break
		}
	}
	now := s.l.gate == nil
	if inner != nil && !now && !s.l.isCut {
		sever(inner)
		s.l.leaving = append(s.l.leaving, inner)
		s.l.ops = append(s.l.ops, &op{do: inner.Close, done: make(chan struct{})})
	}
	s.l.mu.Unlock()
	if inner != nil && now {
		_ = inner.Close()
	}
	s.pumps.Wait()
	close(s.out)
	return nil
}

// settler is the way of an acknowledgement.
type settler struct {
	s     *linkSub
	inner queue.Subscription
	d     *queue.Delivery
}

func (x *settler) Live() bool {
	x.s.l.mu.Lock()
	ok := !x.s.closed && !x.s.l.dead && x.s.inner == x.inner
	x.s.l.mu.Unlock()
	return ok && !x.d.Stale()
}

func (x *settler) Ack(uint64) error {
	if !x.Live() {
		return queue.ErrStale
	}
	l := x.s.l
	l.mu.Lock()
	if l.gate != nil {
		l.ops = append(l.ops, &op{do: func() error { l.w.note(l.name, "acked late", x.s.name, x.d.ID); return x.d.Ack() }, done: make(chan struct{})})
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	l.w.note(l.name, "acked", x.s.name, x.d.ID)
	return x.d.Ack()
}

// silence has nothing pass.
func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate == nil && !l.dead {
		l.gate, l.since = make(chan struct{}), time.Now()
	}
}

// cut loses the connection. The broker notices that after a while.
func (l *link) cut(noticed time.Duration, forGood bool) {
	l.mu.Lock()
	if l.gate == nil {
		l.gate, l.since = make(chan struct{}), time.Now()
	}
	l.isCut = true
	l.dead = l.dead || forGood
	ops := l.ops
	l.ops = nil
	inners := l.leaving
	l.leaving = nil
	for _, s := range l.subs {
		if s.inner != nil {
			inners = append(inners, s.inner)
			s.inner = nil
		}
		for !s.stream() && len(s.out) > 0 {
			select {
			case <-s.out:
			default:
			}
		}
	}
	g := l.gate
	if forGood {
		l.gate = nil
	}
	l.mu.Unlock()
	for _, o := range ops {
		o.err = errLost
		close(o.done)
	}
	for _, i := range inners {
		sever(i)
	}
	if forGood {
		close(g)
	}
	closeAll := func() {
		for _, i := range inners {
			memorytest.Lose(i)
		}
	}
	if noticed == 0 {
		closeAll()
		return
	}
	l.w.work.Go(func() { time.Sleep(noticed); closeAll() })
}

// heal ends a silence or a cut.
func (l *link) heal() {
	for {
		l.mu.Lock()
		if l.gate == nil || l.dead {
			l.mu.Unlock()
			return
		}
		ops := l.ops
		l.ops = nil
		if len(ops) == 0 {
			close(l.gate)
			l.gate, l.isCut, l.leaving = nil, false, nil
			for _, s := range l.subs {
				if s.inner == nil {
					if err := s.openLocked(); err != nil {
						l.w.fail("CONSUME", "", "%v", err)
					}
				}
			}
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for _, o := range ops {
			o.err = o.do()
			close(o.done)
		}
	}
}
