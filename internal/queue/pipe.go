package queue

import "sync"

// pipeSize is how many deliveries a Pipe holds without a goroutine. The prefetch may be
// a hundred times as many, and most subscriptions are never given anything.
const pipeSize = 64

// Pipe passes deliveries on to a channel and never blocks who gives them; for
// implementations of Broker. Make one with NewPipe. Safe for concurrent use.
type Pipe struct {
	out  chan *Delivery
	done chan struct{}

	mu      sync.Mutex
	rest    []*Delivery // for which out had no place
	running bool        // a goroutine moves rest to out
	closed  bool
}

// NewPipe returns an empty pipe.
func NewPipe() *Pipe {
	return &Pipe{out: make(chan *Delivery, pipeSize), done: make(chan struct{})}
}

// Out is where deliveries arrive, in order. It is closed by Close.
func (p *Pipe) Out() <-chan *Delivery { return p.out }

// Push adds a delivery. After Close it does nothing.
func (p *Pipe) Push(d *Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if !p.running {
		select {
		case p.out <- d:
			return
		default:
		}
		p.running = true
		go p.move() // ends with the pipe at the latest
	}
	p.rest = append(p.rest, d)
}

// move moves what waits to out, until nothing does.
func (p *Pipe) move() {
	for {
		p.mu.Lock()
		if len(p.rest) == 0 || p.closed {
			if p.running = false; p.closed {
				close(p.out)
			}
			p.mu.Unlock()
			return
		}
		next := p.rest[0]
		p.rest[0] = nil
		if p.rest = p.rest[1:]; len(p.rest) == 0 {
			p.rest = nil
		}
		p.mu.Unlock()
		select {
		case p.out <- next:
		case <-p.done:
		}
	}
}

// Close closes the channel and takes out what nobody has read. Idempotent.
func (p *Pipe) Close() {
	p.mu.Lock()
	first, running := !p.closed, p.running
	p.closed, p.rest = true, nil
	p.mu.Unlock()
	if !first {
		return
	}
	close(p.done)
	if !running {
		close(p.out)
	}
	for range p.out {
	}
}
