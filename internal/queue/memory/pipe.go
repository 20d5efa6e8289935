package memory

import (
	"sync"

	"chatclub/internal/queue"
)

// pipeSize is the number of deliveries that a pipe holds without a goroutine. The
// prefetch may be a hundred times as many, and most subscriptions are never given
// anything.
const pipeSize = 64

// pipe passes deliveries on to a channel, and Push never blocks. Make one with
// newPipe. Safe for concurrent use.
type pipe struct {
	out  chan *queue.Delivery
	done chan struct{}

	mu      sync.Mutex
	rest    []*queue.Delivery // for which out had no place
	running bool              // a goroutine moves rest to out
	closed  bool
}

// newPipe returns an empty pipe.
func newPipe() *pipe {
	return &pipe{out: make(chan *queue.Delivery, pipeSize), done: make(chan struct{})}
}

// Out returns the channel of the deliveries, in order. It is closed by Close.
func (p *pipe) Out() <-chan *queue.Delivery { return p.out }

// Push adds a delivery. After Close it does nothing.
func (p *pipe) Push(d *queue.Delivery) {
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

// move moves the waiting deliveries to out, until there are none.
func (p *pipe) move() {
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

// Close closes the channel and takes out the unread deliveries. Idempotent.
func (p *pipe) Close() {
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
