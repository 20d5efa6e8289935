package strategy

import (
	"context"
	"errors"
	"fmt"
	"strings"

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

// RedisVersion returns the version of a Redis that works for the strategies that
// need one: it takes the address's password and answers a PING. The version is
// empty where the server does not tell it. No error holds the password.
func RedisVersion(ctx context.Context, url string) (version string, err error) {
	opts, err := redisOptions(url)
	if err != nil {
		return "", err
	}
	// Before the client does, which writes on standard error when it fails.
	conn, err := redis.NewDialer(opts)(ctx, opts.Network, opts.Addr)
	if err != nil {
		return "", fmt.Errorf("reach Redis: %w", err)
	}
	_ = conn.Close() // nothing was said on it
	client := redis.NewClient(opts)
	defer func() { err = errors.Join(err, client.Close()) }()
	if err := client.Ping(ctx).Err(); err != nil {
		return "", fmt.Errorf("ping Redis: %w", err)
	}
	info, err := client.Info(ctx, "server").Result()
	if err != nil { // a server may refuse it to clients that it else serves
		return "", nil
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", nil
}
