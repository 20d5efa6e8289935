package rabbit

import (
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

const (
	// probers is how many questions are open at a time, each about another
	// queue: one queue without a leader leaves one of them open, a node that
	// does not reach the others most.
	probers = 3
	// probeEvery is the pause between questions, a third of maxSilence.
	probeEvery = 500 * time.Millisecond
	// maxSilence is how long the broker may be silent before the connection is
	// not ready: what is done meanwhile perhaps cannot be acknowledged.
	maxSilence = 1500 * time.Millisecond
	// answerTimeout is how long it may be silent before the session ends. It is
	// below the 5 s after which RabbitMQ answers for a queue that it does not
	// reach as if the queue were empty.
	answerTimeout = 4 * time.Second
)

// prober asks the broker about queues all the time, for the answers' sake. A
// connection that is half open is noticed by it before the heartbeat ends, and
// so is a node that answers heartbeats and is cut off from the other nodes.
type prober struct {
	session *session
	began   time.Time
	heard   atomic.Int64          // the last answer to any of them, in ns since began
	prompt  [probers]atomic.Int64 // the last prompt answer to each
}

// newProber starts a prober on s.
func newProber(s *session, topology queue.Topology) *prober {
	p := &prober{session: s, began: time.Now()}
	specs := topology.Specs()
	for i := range probers {
		s.workers.Go(func() { p.run(i, specs) })
	}
	return p
}

func (p *prober) now() int64 { return int64(time.Since(p.began)) }

// run asks about one queue after another.
func (p *prober) run(i int, specs []queue.Spec) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var ch *amqp.Channel
	for k := i * len(specs) / probers; ; k++ {
		asked := p.now()
		if p.ask(&ch, specs[k%len(specs)].Name) {
			p.heard.Store(p.now())
			if time.Duration(p.now()-asked) < answerTimeout {
				p.prompt[i].Store(p.now())
			}
		}
		select {
		case <-tick.C:
		case <-p.session.lost:
			return
		}
	}
}

// ask reports whether the broker answers. That a queue is missing is an answer,
// and closes the channel.
func (p *prober) ask(ch **amqp.Channel, name string) bool {
	if *ch == nil || (*ch).IsClosed() {
		c, err := p.session.conn.Channel()
		if err != nil {
			return false
		}
		*ch = c
	}
	_, err := look(*ch, name)
	return err == nil || is(err, amqp.NotFound)
}

// silence is how long ago the broker last answered.
func (p *prober) silence() time.Duration { return time.Duration(p.now() - p.heard.Load()) }

// stalled reports whether most questions have had no prompt answer for so long.
func (p *prober) stalled(patience time.Duration) bool {
	late := 0
	for i := range p.prompt {
		if time.Duration(p.now()-p.prompt[i].Load()) > patience+probeEvery {
			late++
		}
	}
	return 2*late > probers
}
