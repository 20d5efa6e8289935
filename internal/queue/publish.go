package queue

import (
	"errors"
	"fmt"
)

// The bounds of Message.Validate.
const (
	// MaxBody is the largest body that RabbitMQ 4 accepts by default. It closes the
	// channel of a larger publish, and would again at each new try.
	MaxBody = 16 << 20
	// MaxName is the length of a short string in AMQP 0-9-1, section 4.2.5.3:
	// of a queue's name, an id and the name of a header.
	MaxName = 255
	// MaxHeaders is the length of the names and texts of all headers together: they
	// travel in one frame, of 4096 bytes at the very least, and the rest of that is for
	// the fields around them.
	MaxHeaders = 3000
)

// Validate returns ErrInvalid, with the reason, for a message that could not be
// published whenever it is tried.
func (m Message) Validate() error {
	switch {
	case m.Queue == "" || len(m.Queue) > MaxName:
		return fmt.Errorf("%w: queue name has %d bytes, want 1 to %d", ErrInvalid, len(m.Queue), MaxName)
	case m.ID == "" || len(m.ID) > MaxName:
		return fmt.Errorf("%w: id has %d bytes, want 1 to %d", ErrInvalid, len(m.ID), MaxName)
	case len(m.Body) > MaxBody:
		return fmt.Errorf("%w: body has %d bytes, want at most %d", ErrInvalid, len(m.Body), MaxBody)
	}
	size := 0
	for k, v := range m.Headers {
		if len(k) > MaxName {
			return fmt.Errorf("%w: header name has %d bytes, want at most %d", ErrInvalid, len(k), MaxName)
		}
		size += len(k) + len(v)
	}
	if size > MaxHeaders {
		return fmt.Errorf("%w: headers have %d bytes, want at most %d", ErrInvalid, size, MaxHeaders)
	}
	return nil
}

// ValidateAll returns the error of the first message that is not valid.
func ValidateAll(t Topology, msgs []Message) error {
	for i, m := range msgs {
		if err := errors.Join(m.Validate(), t.validateDelay(m)); err != nil {
			return fmt.Errorf("publish message %d of %d: %w", i+1, len(msgs), err)
		}
	}
	return nil
}

// PublishError is an error of Publish that says which messages it concerns.
type PublishError struct {
	Errs []error // for each message of the call; nil: the broker has confirmed it
	Err  error   // all of them in words
}

// NewPublishError is the error of messages with these errors; nil when none has
// one.
func NewPublishError(errs []error) error {
	all := errors.Join(errs...)
	if all == nil {
		return nil
	}
	return &PublishError{Errs: errs, Err: all}
}

// Error implements error.
func (e *PublishError) Error() string { return e.Err.Error() }

// Unwrap is the error that it adds to.
func (e *PublishError) Unwrap() error { return e.Err }

// ErrorOf returns the error of the i-th message in err, of its Publish.
func ErrorOf(err error, i int) error {
	if some, ok := errors.AsType[*PublishError](err); ok && i < len(some.Errs) {
		return some.Errs[i]
	}
	return err
}

// Unconfirmed returns those of msgs that err, of their Publish, does not say
// are queued: the ones to publish again.
func Unconfirmed(msgs []Message, err error) []Message {
	var rest []Message
	for i, m := range msgs {
		if ErrorOf(err, i) != nil {
			rest = append(rest, m)
		}
	}
	return rest
}
