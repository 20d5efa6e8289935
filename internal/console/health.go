package console

import (
	"context"
	"errors"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
	"chatclub/internal/replicas"
)

const (
	// healthEvery is the period of asking programs and RabbitMQ how they are.
	healthEvery = 5 * time.Second
	// healthTimeout bounds one look: RabbitMQ may take 5 s to say nothing, and then some
	// 400 queues are asked about.
	healthTimeout = 15 * time.Second
)

// health is what programs and RabbitMQ say of themselves, as far as they were asked.
type health struct {
	programs []replicas.Health
	broker   *replicas.BrokerHealth // nil: it was not asked
	idle     []queue.Idle           // as of the last look; the page shows those of two
}

// hear takes what RabbitMQ says.
func (h *health) hear(b replicas.BrokerHealth) {
	idle := b.Idle
	b.Idle = queue.StillIdle(h.idle, idle)
	h.broker, h.idle = &b, idle
}

// watchHealth asks until ctx ends. Programs are told of before RabbitMQ answers.
func (k *Console) watchHealth(ctx context.Context) {
	for {
		k.lookAtHealth(ctx)
		if !backoff.Sleep(ctx, healthEvery) {
			return
		}
	}
}

func (k *Console) lookAtHealth(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	var asking sync.WaitGroup
	defer asking.Wait()
	if k.cfg.Broker != nil {
		asking.Go(func() {
			if h := replicas.AskBroker(ctx, k.cfg.Broker); !errors.Is(ctx.Err(), context.Canceled) {
				k.setHealth(func(now *health) { now.hear(h) })
			}
		})
	}
	f := k.fleet(ctx)
	if list := f.Health(ctx); ctx.Err() == nil {
		k.setHealth(func(now *health) { now.programs = list })
	}
}

func (k *Console) setHealth(change func(*health)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.health)
}

// fleet is the deployment as it can be asked.
func (k *Console) fleet(ctx context.Context) replicas.Fleet {
	f := replicas.Fleet{Client: k.client(), Dispatchers: reached(k.cfg.Replicas(ctx))}
	if k.cfg.Core != nil {
		f.Core = reached(k.cfg.Core(ctx))
	}
	if k.cfg.Webhook != nil {
		f.Webhook = reached(k.cfg.Webhook(ctx))
	}
	return f
}
