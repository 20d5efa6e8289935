// Package keys reaches a Redis that others use too, and removes what a run has left
// in it.
package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Open returns a client of the Redis at an address, which the caller closes. No error
// holds the password.
func Open(url string) (*redis.Client, error) {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("REDIS_URL must look like redis://host:port/db") // err repeats it
	}
	return redis.NewClient(opt), nil
}

// some is how many keys are looked at in one step, so that others are served
// between two.
const some = 1000

// Remove deletes every key that matches a pattern.
func Remove(ctx context.Context, client *redis.Client, pattern string) error {
	for cursor := uint64(0); ; {
		keys, next, err := client.Scan(ctx, cursor, pattern, some).Result()
		if err == nil && len(keys) > 0 {
			err = client.Unlink(ctx, keys...).Err()
		}
		if err != nil {
			return fmt.Errorf("remove keys: %w", err)
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
