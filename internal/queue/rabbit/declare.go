package rabbit

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/queue"
)

const (
	// deliveryLimit is more than a message is ever returned. RabbitMQ 4 has a
	// limit of 20 where none is declared, and each end of a lane's owner counts.
	// Without any, returned messages go to the end of their queue on 4.0.
	deliveryLimit = 1_000_000
	// disconnectedTimeout is the time for which RabbitMQ 4.3 leaves deliveries to
	// a consumer whose node it does not reach; the default is a minute. Earlier
	// versions ignore it.
	disconnectedTimeout = 5 * time.Second
)

// errOtherArguments says that a queue of our name exists and is not ours.
var errOtherArguments = errors.New("the queue exists with other arguments: change QUEUE_PREFIX or delete the queue")

// declareMissing makes the topology on s if that was not done yet, or if the last
// session ended because something was missing. A broker that is lost and found
// has its queues; with many programs it would be asked for thousands at once. What
// is missing after all is found by who publishes to it or consumes it.
func (b *Broker) declareMissing(s *session, last error) error {
	var since time.Time
	if is(last, amqp.NotFound) {
		since = s.began
	}
	return b.declare(s, since)
}

// declare makes the topology on s, unless that was begun since then.
func (b *Broker) declare(s *session, since time.Time) error {
	if b.cfg.Passive {
		return nil
	}
	b.declaring <- struct{}{} // whoever has the place ends with its session at the latest
	defer func() { <-b.declaring }()
	if b.declared.After(since) {
		return nil
	}
	began := time.Now()
	if err := declare(s, b.cfg.Topology); err != nil {
		return err
	}
	b.declared = began
	return nil
}

// declareAgain makes in the background what somebody has deleted, unless that is being
// done.
func (b *Broker) declareAgain(s *session, missing string) {
	if b.cfg.Passive {
		return
	}
	select {
	case b.declaring <- struct{}{}:
	default:
		return
	}
	b.cfg.Log.Warn("a queue is missing; declaring all of them again", "queue", missing)
	b.calls.Go(func() {
		defer func() { <-b.declaring }()
		if err := declare(s, b.cfg.Topology); err != nil {
			b.cfg.Log.Warn("declare queues again", "err", err)
		}
	})
}

// declare makes every queue of the topology that does not exist yet. It works
// on a channel of its own, because RabbitMQ answers a refused declaration by
// closing the channel. All declarations are written at once and the last is
// waited for: one by one they take a round trip each. A passing error, such as
// 541 from a node that is still starting, is returned like any other: the
// caller tries again.
func declare(s *session, topology queue.Topology) error {
	ch, err := s.conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel to declare queues: %w", err)
	}
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	err = s.raw.together(func() error {
		for _, spec := range topology.Specs() {
			if err := declareSpec(ch, spec); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		_, err = ch.QueueDeclarePassive(topology.Dead(), true, false, false, false, nil)
	}
	if err != nil {
		if ch.IsClosed() { // the broker's reason comes before that of whoever found the channel closed
			if reply := <-closes; reply != nil {
				err = reply
			}
		}
		return fmt.Errorf("declare queues: %w", explainNumber(err, topology))
	}
	if err := ch.Close(); err != nil {
		return fmt.Errorf("close channel to declare queues: %w", err)
	}
	return nil
}

// declareSpec makes one queue, and the exchange before one that delays. It waits for no
// answer.
func declareSpec(ch *amqp.Channel, spec queue.Spec) error {
	if _, err := ch.QueueDeclare(spec.Name, true, false, false, true, arguments(spec)); err != nil {
		return err
	}
	if spec.Delay == 0 {
		return nil
	}
	// A message keeps its routing key in this queue, the name of the queue that
	// it is for: that takes an exchange which routes whatever the key is.
	if err := ch.ExchangeDeclare(spec.Name, amqp.ExchangeFanout, true, false, false, true, nil); err != nil {
		return err
	}
	return ch.QueueBind(spec.Name, "", spec.Name, true, nil)
}

// arguments are the same on every RabbitMQ from 4.0 to 4.3 and never change
// for a given prefix.
func arguments(spec queue.Spec) amqp.Table {
	if spec.Stream {
		return amqp.Table{"x-queue-type": "stream", "x-queue-leader-locator": "balanced"}
	}
	args := amqp.Table{
		"x-queue-type":                    "quorum",
		"x-queue-leader-locator":          "balanced", // not all at the node that declares first
		"x-delivery-limit":                int64(deliveryLimit),
		"x-consumer-disconnected-timeout": disconnectedTimeout.Milliseconds(),
	}
	if spec.Delay > 0 || spec.DeadLetter != "" {
		// What RabbitMQ takes off a queue reaches the next one or stays; that
		// needs reject-publish. The queue of dead letters itself has neither, so
		// that an operator's length limit decides what it keeps.
		args["x-dead-letter-exchange"] = ""
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	if spec.Length > 0 {
		args["x-max-length"] = int64(spec.Length)
	}
	if spec.Delay > 0 {
		args["x-message-ttl"] = spec.Delay.Milliseconds()
	}
	if spec.DeadLetter != "" {
		args["x-dead-letter-routing-key"] = spec.DeadLetter
	}
	if spec.SingleActive {
		args["x-single-active-consumer"] = true
	}
	return args
}

// OtherPartitionsError says that the programs on the broker have another number of
// partitions: they would put messages where this one does not look.
type OtherPartitionsError struct {
	Queue       string // that holds their number
	Here, There int
}

// Error implements error.
func (e *OtherPartitionsError) Error() string {
	return fmt.Sprintf("%d here, and %d in the programs on the broker, which keeps it in the queue %s", e.Here, e.There, e.Queue)
}

// explainNumber is explain, and makes an *OtherPartitionsError of the reply to a declaration
// of the queue that holds the number of partitions.
func explainNumber(err error, t queue.Topology) error {
	var reply *amqp.Error
	if errors.As(err, &reply) && reply.Code == amqp.PreconditionFailed && strings.Contains(reply.Reason, "'x-max-length' for queue '"+t.Number()+"'") {
		if found := currentNumber.FindStringSubmatch(reply.Reason); found != nil {
			there, _ := strconv.Atoi(found[1]) // digits; none is too long to be one of ours
			return &OtherPartitionsError{Queue: t.Number(), Here: t.Partitions, There: there}
		}
	}
	return explain(err)
}

// currentNumber finds the number that an existing queue has, in RabbitMQ's words.
var currentNumber = regexp.MustCompile(`current is '(\d{1,9})'`)

// is reports whether err is RabbitMQ's reply with that code.
func is(err error, code int) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && reply.Code == code
}

// explain says what to do about a reply that does not say it itself. All others name
// the user, queue, permission or limit. What the client library made of an error of the
// network, a syntax error of its own, is told as that.
func explain(err error) error {
	var reply *amqp.Error
	switch ok := errors.As(err, &reply); {
	case ok && reply.Code == amqp.PreconditionFailed && strings.Contains(reply.Reason, "inequivalent arg"):
		return fmt.Errorf("%w: %w", errOtherArguments, err)
	case ok && !reply.Server && reply.Code == amqp.FrameError:
		return errors.New(reply.Reason)
	}
	return err
}

// isRefusal reports whether err is a reply that nothing but an operator will mend: a
// password, a permission, a queue's arguments, a virtual host or a limit.
func isRefusal(err error) bool {
	return is(err, amqp.AccessRefused) || is(err, amqp.PreconditionFailed) || is(err, amqp.NotAllowed) || is(err, amqp.ResourceLocked)
}

// isUseless reports whether a program can do nothing on a broker, before somebody changes
// the broker or the program.
func isUseless(err error) bool {
	_, other := errors.AsType[*OtherPartitionsError](err)
	return other || errors.Is(err, errTooOld)
}
