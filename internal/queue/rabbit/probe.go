package rabbit

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// probeEvery is the pause between two questions about one queue.
	probeEvery = time.Second
	// maxSilence is the silence of the broker after which the connection is not
	// ready: what is done meanwhile perhaps cannot be acknowledged. A broker
	// whose answers take longer has more.
	maxSilence = 1500 * time.Millisecond
	// answerTimeout is the time limit of an answer, and the least patience of the
	// consuming link. It is below the 5 s after which earlier versions of RabbitMQ
	// answer for a queue that they do not reach.
	answerTimeout = 4 * time.Second
)

// prober asks the broker for a message of each probe queue, all the time, for the
// answer's sake: there is none. A connection that is half open is noticed by it
// before the heartbeat ends.
//
// RabbitMQ gives a message, or says that there is none, when most nodes of the
// queue agree. So a node that is cut off from the others does not answer. It does
// answer heartbeats, and questions about the state of a queue (4.3: at once, as
// if the queue were empty).
type prober struct {
	session *session
	began   time.Time
	heard   atomic.Int64 // when most queues had last been answered for, in ns since began
	excused atomic.Int64 // until then silence ends no session, in ns since began
	most    atomic.Int64 // how long the broker may be silent, in ns

	mu        sync.Mutex
	prompt    []time.Duration // the last prompt answer about each queue, since began
	roundTrip roundTrip
}

// newProber starts a prober on s.
func newProber(s *session, queues []string) *prober {
	p := &prober{session: s, began: time.Now(), prompt: make([]time.Duration, len(queues))}
	p.most.Store(int64(maxSilence))
	for i, name := range queues {
		s.workers.Go(func() { p.run(i, name) })
	}
	return p
}

func (p *prober) now() time.Duration { return time.Since(p.began) }

// run asks about one queue.
func (p *prober) run(i int, name string) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var ch *amqp.Channel
	for {
		asked := p.now()
		if p.ask(&ch, name) {
			p.hear(i, asked, p.now())
		}
		select {
		case <-tick.C:
		case <-p.session.lost:
			return
		}
	}
}

// hear learns from an answer. A late one may say nothing about the queue's
// leader, and is like none.
func (p *prober) hear(i int, asked, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roundTrip.observe(now - asked)
	p.most.Store(int64(max(maxSilence, probeEvery+p.roundTrip.most())))
	if now-asked < answerTimeout {
		p.promptLocked(i, now)
	}
}

// promptLocked notes a prompt answer about a queue, and since when most queues
// have had none.
func (p *prober) promptLocked(i int, now time.Duration) {
	p.prompt[i] = now
	sorted := slices.Sorted(slices.Values(p.prompt))
	p.heard.Store(int64(sorted[len(sorted)/2]))
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
	_, _, err := (*ch).Get(name, true)
	return err == nil || is(err, amqp.NotFound)
}

// silence returns the time without a prompt answer about most queues. It is asked for
// every message.
func (p *prober) silence() time.Duration { return p.now() - time.Duration(p.heard.Load()) }

// isSilent reports whether that is longer than the broker usually takes. The
// time in which this process did not run counts: the broker may have given up
// the connection meanwhile.
func (p *prober) isSilent() bool { return p.silence() > time.Duration(p.most.Load()) }

// excuse makes stalled begin again.
func (p *prober) excuse() { p.excused.Store(int64(p.now())) }

// stalled reports whether the broker has been silent for so long, while this
// process could hear it.
func (p *prober) stalled(patience time.Duration) bool {
	return min(p.silence(), p.now()-time.Duration(p.excused.Load())) > patience+probeEvery
}

// roundTrip is an estimate of the answers' latency, as TCP has it (RFC 6298). The zero
// value knows of none.
type roundTrip struct{ mean, deviation time.Duration }

func (r *roundTrip) observe(d time.Duration) {
	r.deviation += ((d - r.mean).Abs() - r.deviation) / 4
	r.mean += (d - r.mean) / 8
}

// most returns an upper bound of the latency: hardly any answer takes longer.
func (r *roundTrip) most() time.Duration { return r.mean + max(4*r.deviation, leastMargin) }

// leastMargin is the least margin above the mean: the delay of answers in a busy process.
const leastMargin = 500 * time.Millisecond
