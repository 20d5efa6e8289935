package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Queue is the system's queue, as a feeder sees it.
type Queue interface {
	// Put puts messages on the queue, in order as far as the system keeps one. It
	// returns when the system has taken all of them. It must be safe for
	// concurrent use.
	Put(ctx context.Context, list []Message) error
	// Left returns what the system has not sent. It is called when no worker
	// runs any more.
	Left(ctx context.Context) (Left, error)
	// Remove deletes everything that the run has made, and disconnects.
	Remove(ctx context.Context) error
}

// Left are ids of messages, one for each place in which a message was found.
type Left struct {
	Waiting []string `json:"waiting"` // to be sent sooner or later, if workers ran on
	Dead    []string `json:"dead"`    // never to be sent without somebody's help
}

// command is what the load test asks of a feeder: put or left.
type command struct {
	N    int       `json:"n"` // its number
	Put  []Message `json:"put"`
	Left bool      `json:"left"`
}

// reply is the answer to a command.
type reply struct {
	N     int    `json:"n"`               // the command's number
	Put   int    `json:"put,omitempty"`   // how many were put
	Left  *Left  `json:"left,omitempty"`  //
	Error string `json:"error,omitempty"` // why it could not be done
}

// feed does what is asked for on in, a JSON object a line, and answers each with
// one on out. Commands are done side by side. When in ends it removes what the run
// has made.
func feed(ctx context.Context, q Queue, in io.Reader, out io.Writer) (err error) {
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	var answering errgroup.Group
	defer func() { err = errors.Join(err, answering.Wait(), q.Remove(context.WithoutCancel(ctx))) }()
	var writing sync.Mutex
	commands, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c command
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		answering.Go(func() error {
			r := answer(ctx, q, c)
			writing.Lock()
			defer writing.Unlock()
			return replies.Encode(r)
		})
	}
}

func answer(ctx context.Context, q Queue, c command) (r reply) {
	r.N = c.N
	var err error
	switch {
	case c.Left:
		var left Left
		if left, err = q.Left(ctx); err == nil {
			r.Left = &left
		}
	case c.Put != nil:
		if err = q.Put(ctx, c.Put); err == nil {
			r.Put = len(c.Put)
		}
	default:
		err = errors.New("neither put nor left is in the command")
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}
