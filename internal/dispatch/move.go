package dispatch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/circuit"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/queue/transfer"
)

// destination says where a message goes.
type destination struct {
	ends   prometheus.Counter // counts it there
	spill  *spill             // of a lane
	reason message.Reason     // of the dead-letter queue
}

// move is a message on its way to another queue.
type move struct {
	m  *held
	to destination
}

// settler finishes with the broker what the engine decided.
type settler struct {
	*Dispatcher
	*transfer.Mover
	circuits *circuit.Circuits
	runs     sync.WaitGroup
	stop     context.CancelFunc
	more     chan struct{} // one place: set when there are events

	mu     sync.Mutex
	events []transfer.Event
}

func newSettler(d *Dispatcher, c *circuit.Circuits) *settler {
	s := &settler{Dispatcher: d, circuits: c, more: make(chan struct{}, 1)}
	s.Mover = transfer.New(transfer.Config{Broker: d.Broker, Log: d.Log, Now: d.Now, Random: d.Random, Notify: s.notify})
	return s
}

func (s *settler) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.runs.Go(func() { s.Mover.Run(ctx) })
}

func (s *settler) notify(ev transfer.Event) {
	s.mu.Lock()
	s.events = append(s.events, ev)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// move hands a message to the mover. Where many wait for the first queue already,
// instead takes its place, if there is one.
func (s *settler) move(m *held, to destination, instead *queue.Message, msgs ...queue.Message) {
	m.source.moving++
	m.state = isMoving
	it := &transfer.Item{Transfer: queue.Transfer{Delivery: m.delivery, To: msgs}, Else: instead, Tag: move{m, to}}
	if len(msgs) > 1 { // what core is told
		it.News = msgs[1].ID
	}
	s.Add(it)
}

// encode is the message as it is now: with its attempts.
func (s *settler) encode(m *held) []byte {
	if m.out.Attempts == 0 {
		return m.delivery.Body
	}
	b, err := m.out.Encode()
	if err != nil {
		s.Log.Error("message moved without its attempts", "id", m.out.ID, "err", err)
		return m.delivery.Body
	}
	return b
}

// postpone moves a message, already out of its line, to a retry queue, from
// which it comes back to its partition.
func (s *settler) postpone(m *held, delay time.Duration, also ...queue.Message) {
	to := queue.Message{
		Queue: s.Broker.Topology().OutboundOf(m.out.Page), ID: m.delivery.ID, Body: s.encode(m), Headers: m.delivery.Headers, Delay: delay,
	}
	s.move(m, destination{ends: s.metrics.delayed}, nil, append([]queue.Message{to}, also...)...)
}

// death is the cause of a message's death.
type death struct {
	reason message.Reason
	tell   bool // core is told
	code   string
	err    error     // the decoder's, or the API's
	at     time.Time // when the call began
	until  time.Time // when the recipient that fails, or the page that is suspended, is tried again
}

// bury moves a message, already out of its line, to the dead-letter queue, and
// tells core when it should know.
func (s *settler) bury(m *held, d death) {
	now := s.Now()
	if d.at.IsZero() {
		d.at = now
	}
	switch d.reason { //nolint:exhaustive // of the others the caller knows all
	case message.ReasonPageStopped:
		if d.until.IsZero() {
			d.code, d.until, d.tell = s.circuits.TellPage(now, m.out.Page)
		}
	case message.ReasonFailing, message.ReasonExhausted, message.ReasonBadMessage:
		d.until, d.tell = s.circuits.TellPerson(now, &m.out)
	}
	if d.reason == message.ReasonBadMessage && d.err == nil && d.code == "" {
		d.code, d.err = s.circuits.EventCode(&m.out), errEvent
	}
	record := message.Death{
		Reason: d.reason, Attempts: m.out.Attempts,
		FirstCode: cmp.Or(m.out.FirstCode, d.code), LastCode: cmp.Or(d.code, m.out.FirstCode),
		Error: reasonOf(d), Time: now, Page: m.out.Page, Recipient: m.out.To,
	}
	var also []queue.Message
	if d.tell && !s.NoFeedback {
		if f, ok := s.feedback(m, d); ok {
			also = append(also, f)
		}
	}
	s.toDead(m, record, also...)
}

// errEvent is why the copies of an event are dead that is at fault.
var errEvent = errors.New("the same message failed for several people, while others were sent to")

// reasonOf says why a message is dead, for its letter.
func reasonOf(d death) string {
	switch {
	case d.err != nil:
		return d.err.Error()
	case d.reason == message.ReasonExpired:
		return "it was older than MESSAGE_TTL, or past its deadline"
	case d.reason == message.ReasonFailing:
		return "earlier messages to the same person failed"
	case d.reason == message.ReasonPageStopped:
		return "nothing can be sent for the page"
	}
	return string(d.reason)
}

// toDead moves a message to the dead-letter queue. While that takes none, many go
// round by a retry queue as the dead letters that they are, so that they are not sent
// again.
func (s *settler) toDead(m *held, record message.Death, also ...queue.Message) {
	to := m.delivery.Dead(record)
	round := to
	round.Queue, round.Delay, round.Headers = s.Broker.Topology().OutboundOf(m.out.Page), retryMedium, maps.Clone(to.Headers)
	round.Headers[message.HeaderDead] = "1"
	s.move(m, destination{ends: s.metrics.dead[record.Reason], reason: record.Reason}, &round, append([]queue.Message{to}, also...)...)
}

// feedback is the event that tells core what was learned about a recipient, or
// that the page is suspended or busy and until when. Its time is that of the
// call: what the user wrote, or the page's operators did, before the answer came
// may be news to the API. Its id has a digest, because a copy's id may have all of the
// 255 bytes that AMQP takes; of the recipient, too, because one id may be used for many;
// and of the time, because the same message may go round, or come back from the dead.
func (s *settler) feedback(m *held, d death) (f queue.Message, ok bool) {
	ev := message.Event{Kind: message.KindFeedback, Page: m.out.Page, User: m.out.To, Time: d.at.UnixMilli(), Reason: string(d.reason)}
	switch {
	case d.reason == message.ReasonPageStopped: // again and again, for as long as it lasts
		ev.Until = d.until.UnixMilli()
	case d.reason == message.FeedbackBusy:
		ev.Until = d.at.Add(busyTime).UnixMilli()
	case !d.until.IsZero():
		ev.Reason, ev.Until = message.FeedbackFailing, d.until.UnixMilli()
	}
	ev.ID = ev.Reason + "/" + digest(fmt.Sprintf("%s/%s/%d/%s", ev.Page, ev.User, ev.Time, m.out.ID))
	f, ok = s.toCore(ev)
	f.Headers = message.CarryTrace(nil, m.delivery.Headers)
	return f, ok
}

// digest is a short id that is made of another one.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}
