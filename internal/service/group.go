package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"
)

// Actor is one part of a program, such as a server or a consumer.
type Actor struct {
	Name string
	// Run blocks until ctx ends and then returns nil, after all its goroutines
	// have ended. It bounds the time it takes for that.
	Run func(ctx context.Context) error
}

// errEnded is the group's error when an actor ends by itself.
var errEnded = errors.New("actor ended")

// Run runs all actors together and returns when all have ended. The group
// stops when ctx ends or when one actor returns, with an error or without. A
// program that lacks a part must not go on as if it were whole. Actors are then
// stopped in the order given, each only after the one before it has ended. So
// the order of shutdown is written where the actors are listed: intake first,
// and last what the others need. The error joins those of all actors, each
// behind its actor's name.
func Run(ctx context.Context, log *slog.Logger, actors ...Actor) error {
	group, stopping := errgroup.WithContext(ctx)
	errs := make([]error, len(actors))
	cancels := make([]context.CancelFunc, len(actors))
	ended := make([]chan struct{}, len(actors))
	for i, a := range actors {
		// Not a child of ctx: each actor is stopped in its order.
		actorCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancels[i], ended[i] = cancel, make(chan struct{})
		group.Go(func() error {
			defer close(ended[i])
			if err := a.Run(actorCtx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", a.Name, err)
			}
			log.DebugContext(ctx, "actor ended", "actor", a.Name)
			return errEnded
		})
	}
	if len(actors) > 0 {
		<-stopping.Done()
		reason := "a part has ended"
		if ctx.Err() != nil {
			reason = "asked to"
		}
		log.InfoContext(ctx, "stopping", "reason", reason)
	}
	for i := range actors {
		cancels[i]()
		<-ended[i]
	}
	_ = group.Wait() // errEnded; the errors are in errs
	return errors.Join(errs...)
}
