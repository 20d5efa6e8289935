package broadcast

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/queue"
)

const (
	// maxReady is how many messages may be ready on the bulk queue when more are
	// put there: some seconds of what one dispatcher sends. More would be sent in
	// one go when dispatchers come back. And the messages of a page that takes
	// none would stand before those of all others.
	maxReady = 1000
	// inspectTimeout bounds the question how many there are.
	inspectTimeout = 2 * time.Second
)

// bulkQueue knows whether more may be put on the bulk queue. At first nothing
// may. inspect is called by one goroutine, takes by any.
type bulkQueue struct {
	broker queue.Broker
	log    *slog.Logger
	gauge  prometheus.Gauge // 1 while it is full
	open   atomic.Bool
	full   bool // the last answer
}

// inspect asks the broker how long the queue is.
func (b *bulkQueue) inspect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	info, err := b.broker.Inspect(ctx, b.broker.Topology().Bulk())
	full := err == nil && info.Ready > maxReady
	b.open.Store(err == nil && !full)
	if full && !b.full {
		b.log.WarnContext(ctx, "the bulk queue is long; broadcasts wait", "ready", info.Ready)
	}
	b.full = full
	if full {
		b.gauge.Set(1)
	} else {
		b.gauge.Set(0)
	}
}
