package strategy

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisOptions returns how every client of ours talks to Redis.
func redisOptions(url string) (*redis.Options, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("RedisURL must look like redis://host:port/db") // err repeats it, with the password
	}
	opts.ReadTimeout, opts.WriteTimeout, opts.DialTimeout = redisTimeout, redisTimeout, redisTimeout
	opts.MaxRetries, opts.DialerRetries = -1, 1 // none: the batcher tries again by itself
	// Nothing that a client may ask of a managed Redis, and that ours does not know.
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts, nil
}

// CheckRedis returns nil for a Redis that works for the strategies that need one: it
// takes the address's password and answers a PING. No error holds the password.
func CheckRedis(ctx context.Context, url string) (err error) {
	opts, err := redisOptions(url)
	if err != nil {
		return err
	}
	// Before the client does, which writes on standard error when it fails.
	conn, err := redis.NewDialer(opts)(ctx, opts.Network, opts.Addr)
	if err != nil {
		return fmt.Errorf("reach Redis: %w", err)
	}
	_ = conn.Close() // nothing was said on it
	client := redis.NewClient(opts)
	if err := errors.Join(client.Ping(ctx).Err(), client.Close()); err != nil {
		return fmt.Errorf("ping Redis: %w", err)
	}
	return nil
}
