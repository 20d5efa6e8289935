package rabbit

import (
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

// session is one AMQP connection and what was made on it. It is up from
// newSession until drop, and is never repaired.
type session struct {
	conn  *amqp.Connection
	raw   *socket // under conn; closing it ends everything on conn at once
	began time.Time

	closes        chan *amqp.Error
	blocks        chan amqp.Blocking
	channelCloses chan *amqp.Error // of the writer's channel

	writer    *writer // on the publishing link
	inspector inspector
	prober    *prober // on the consuming link
	acks      *acks   // of all its channels

	workers sync.WaitGroup
	once    sync.Once
	lost    chan struct{} // closed by drop
	cause   error         // why; readable once lost is closed
}

func newSession(conn *amqp.Connection, raw *socket) *session {
	return &session{
		conn: conn, raw: raw, acks: newAcks(raw), began: time.Now(), lost: make(chan struct{}),
		// The library sends to these from its reading goroutine: one loss, and
		// one change of the alarm at a time, which watch takes at once.
		closes:        conn.NotifyClose(make(chan *amqp.Error, 1)),
		channelCloses: make(chan *amqp.Error, 1),
		blocks:        conn.NotifyBlocked(make(chan amqp.Blocking, 4)),
	}
}

// drop ends the session: every confirm that is still owed fails, every
// delivery becomes stale. The first cause is kept; what the broker has said comes
// before what a caller saw of it.
func (s *session) drop(cause error) {
	s.once.Do(func() {
		s.cause = cause
		for _, told := range []<-chan *amqp.Error{s.channelCloses, s.closes} {
			select {
			case err := <-told:
				if err != nil {
					s.cause = err
				}
			default:
			}
		}
		close(s.lost)
		_ = s.raw.Close()
	})
}

// excuse has the broker's silence count from now on.
func (s *session) excuse() {
	if s.writer != nil {
		s.writer.progress.touch()
	}
	if s.prober != nil {
		s.prober.excuse()
	}
}

// close ends the session after a word to the broker, which takes closeTimeout
// at most.
func (s *session) close() {
	guard := time.AfterFunc(closeTimeout, func() { _ = s.raw.Close() })
	defer guard.Stop()
	_ = s.conn.CloseDeadline(time.Now().Add(closeTimeout)) // the session ends either way
	s.drop(queue.ErrClosed)
}

// wait returns when all goroutines of a dropped session have ended.
func (s *session) wait() {
	for range s.closes { // closed as the last thing by the library
	}
	for range s.blocks {
	}
	s.workers.Wait()
}

func (s *session) isLost() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}
