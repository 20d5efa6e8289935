package fleet

import (
	"context"
	"errors"

	"chatclub/internal/queue"
)

// Remote is a deployment that runs already. Nothing in it is started or
// stopped, and what it uses is not known.
type Remote struct {
	Target string // of its webhook
	Ledger string // of the fakeapi that it sends to
}

var _ Fleet = (*Remote)(nil)

var errRemote = errors.New("a running deployment's dispatchers can only be started and stopped by its operator")

// Join cannot be done.
func (*Remote) Join(context.Context) error { return errRemote }

// Leave cannot be done.
func (*Remote) Leave(context.Context) error { return errRemote }

// Retire cannot be done.
func (*Remote) Retire(context.Context) error { return errRemote }

// Kill cannot be done.
func (*Remote) Kill(context.Context) error { return errRemote }

// Stop does nothing.
func (*Remote) Stop(context.Context) error { return nil }

// Ingress is the deployment's webhook.
func (r *Remote) Ingress(context.Context, Ingress) (string, error) { return r.Target, nil }

// Broker is nil: it is the deployment's own.
func (*Remote) Broker() queue.Broker { return nil }

// Platform is the deployment's fakeapi.
func (r *Remote) Platform() Platform { return Platform{URL: r.Ledger} }

// Delayed is not known.
func (*Remote) Delayed() int { return 0 }

// Usage is not known.
func (*Remote) Usage() (Usage, error) { return Usage{}, nil }

// Errors are not known.
func (*Remote) Errors() []string { return nil }

// Close does nothing.
func (*Remote) Close(context.Context) error { return nil }
