package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/app"
	"chatclub/internal/article"
	"chatclub/internal/dispatch"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/service"
	"chatclub/loadtest/report"
	"chatclub/loadtest/strategy"
)

// Options of every dispatcher of a run.
type Options struct {
	Strategy  string
	Replicas  int     // as configured at the start
	Limit     float64 // text messages per second and page, as the dispatchers are told
	Media     float64 // the same of audio and video; 0: the program's default
	RedisURL  string
	KeyPrefix string // of keys in Redis

	MessageTTL time.Duration // default an hour
}

const (
	// MaxInFlight is the limit of one dispatcher's calls in flight, and so of the calls
	// that are made twice when it is killed. It is the program's default.
	MaxInFlight = 4096
	callTimeout = 10 * time.Second

	// prefetch and workerInFlight are those of a worker: with them all strategies
	// were first compared.
	prefetch       = 1024
	workerInFlight = 512
)

// graphVersion is the first part of the Send API's paths.
const graphVersion = "/v23.0"

// shares reports whether all dispatchers consume one queue.
func (o *Options) shares() bool { return o.Strategy != report.Own }

// Queue returns the queue on which messages for a page are published.
func (o *Options) Queue(t queue.Topology, page string) string {
	if o.shares() {
		return t.Shared()
	}
	return t.OutboundOf(page)
}

// settings are those of the dispatcher program, with the options in them.
func (o *Options) settings() app.DispatcherSettings {
	s := service.Defaults[app.DispatcherSettings]()
	s.Admin.Addr = ""
	s.LimitText = int(o.Limit)
	s.LimitMedia = cmp.Or(int(o.Media), s.LimitMedia)
	s.MessageTTL = cmp.Or(o.MessageTTL, s.MessageTTL)
	return s
}

// runner makes what sends, the dispatcher or a strategy's worker: run does so until ctx
// ends. Of the replicas those that are gone count.
func (l *Local) runner(ctx context.Context, broker queue.Broker, caller dispatch.Caller, reg *prometheus.Registry, replica int) (run, ready func(context.Context) error, err error) {
	o, random := l.cfg.Options, l.cfg.Random()
	s := o.settings()
	if o.Strategy == report.Own {
		d, err := app.NewDispatcher(ctx, app.DispatcherConfig{
			Settings: s, Sender: caller, Random: random, Options: app.Options{Broker: broker, Registry: reg, Log: l.cfg.Log},
		})
		if err != nil {
			return nil, nil, err
		}
		return d.Run, d.Ready, nil
	}
	info, ok := strategy.Find(o.Strategy)
	if !ok {
		return nil, nil, fmt.Errorf("strategy %.40q is unknown", o.Strategy)
	}
	gate, err := info.New(strategy.Config{
		Limit:    message.Limits{Text: o.Limit, Media: float64(s.LimitMedia)}.Of,
		Replicas: o.Replicas, Replica: replica,
		RedisURL: o.RedisURL, KeyPrefix: o.KeyPrefix, Random: random, Fault: l.fault,
	})
	if err != nil {
		return nil, nil, err
	}
	w := article.NewWorker(article.WorkerConfig{
		Broker: broker, Caller: caller, Strategy: gate, Log: l.cfg.Log, Random: random,
		Prefetch: prefetch, MaxInFlight: workerInFlight,
		MaxAttempts: s.MaxAttempts, MessageTTL: s.MessageTTL, ShutdownTimeout: s.ShutdownTimeout,
	})
	run = func(ctx context.Context) error { return errors.Join(w.Run(ctx), gate.Close()) }
	return run, func(context.Context) error { return w.Ready() }, nil
}

// environment are the variables of core, whose users write as fast as the load asks
// for, and of webhook.
func (f Ingress) environment(dir string) map[string]string {
	return map[string]string{
		"APP_SECRET": f.Secret, "VERIFY_TOKEN": f.Secret, "DATABASE_URL": "sqlite:" + filepath.Join(dir, "rooms.db"),
		"ROOM_CAPACITY": strconv.Itoa(f.Capacity), "ROOM_IDLE": "0s", "FLOOD_LIMIT": "0", "FLOOD_SHARE": "0",
	}
}

// shared is a broker on which copies go to the shared queue in place of their
// partitions. Events and dead letters stay where they are.
type shared struct{ queue.Broker }

// Publish implements queue.Publisher.
func (s shared) Publish(ctx context.Context, msgs ...queue.Message) error {
	return s.Broker.Publish(ctx, article.Divert(s.Topology(), msgs)...)
}
