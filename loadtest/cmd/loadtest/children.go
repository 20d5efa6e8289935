package main

import (
	"context"

	"chatclub/loadtest/fleet"
)

// children are the commands by which this program starts itself. They are not
// for people.
func children() map[string]func(context.Context, []string, streams) error {
	all := make(map[string]func(context.Context, []string, streams) error)
	for _, kind := range []string{fleet.KindDispatcher, fleet.KindIngress, fleet.KindPlatform} {
		all[kind] = func(ctx context.Context, _ []string, s streams) error {
			return fleet.Child(ctx, kind, s.in, s.out, s.err)
		}
	}
	return all
}
