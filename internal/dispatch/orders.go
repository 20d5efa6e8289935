package dispatch

import (
	"context"
	"time"

	"chatclub/internal/excess"
	"chatclub/internal/message"
	"chatclub/internal/orders"
)

const (
	// ordersTime is the longest wait of the first messages for the operators' orders, while
	// the broker answers. A dispatcher that cannot read them by then sends without them,
	// and says so.
	ordersTime = 3 * time.Second
	// ordersTick is the period of the checks whether the broker answers.
	ordersTick = 100 * time.Millisecond
)

// limitsOf returns the limits of a page: those that operators ordered, and else those of the
// configuration.
func (d *Dispatcher) limitsOf(page string) message.Limits {
	return d.orders.Limits(page).Or(d.Limits(page))
}

// followOrders reads the operators' orders until the function that it returns is called,
// and has the engine called with each. It waits for those that there are already, for
// ordersTime at most, so that nothing is sent against them.
func (d *Dispatcher) followOrders(ctx context.Context, ordered func(*engine, orders.Order)) (stop func()) {
	follow, cancel := context.WithCancel(context.WithoutCancel(ctx))
	running, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		err := d.orders.Follow(follow, d.Broker, d.Log, func(o orders.Order) {
			select {
			case <-running:
				d.post(func(e *engine) { ordered(e, o) })
			default: // nothing is held yet
			}
		})
		if err != nil {
			d.Log.Error("operators' orders have no effect", "err", err)
		}
	}()
	d.awaitOrders(ctx)
	close(running)
	return func() {
		cancel()
		<-done
	}
}

// awaitOrders returns when the orders are known, ordersTime is over or ctx ends. A broker
// that is not there delivers nothing to send either: its silence does not count.
func (d *Dispatcher) awaitOrders(ctx context.Context) {
	tick := time.NewTicker(ordersTick)
	defer tick.Stop()
	for left := ordersTime; left > 0; {
		select {
		case <-d.orders.Known():
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			if !d.Broker.IsSilent() {
				left -= ordersTick
			}
		}
	}
	d.Log.Warn("the operators' orders are not known yet; sending without them")
}

// ordered has the engine look at a page about which something was ordered.
func (e *engine) ordered(o orders.Order) {
	log := e.Log.With("page", o.Page)
	switch o.Kind {
	case orders.Pause:
		log.Info("page is paused by order; its messages wait", "for", o.Length(), "reason", o.Reason)
	case orders.Resume:
		log.Info("page is resumed by order", "was_suspended", e.resume(o.Page), "hint_ended", e.gate.EndHints(e.Now(), o.Page),
			"has_token", e.LacksToken == nil || !e.LacksToken(o.Page))
	case orders.Limit:
		log.Info("page has limits by order; 0: as configured", "texts", o.Limits.Text, "media", o.Limits.Media, "recipient", o.Limits.Recipient)
	}
	e.pages.relimit(o.Page)
}

// relimit takes a page's limits as they are now, and looks at the page.
func (p *pages) relimit(page string) {
	for _, class := range []message.Class{message.ClassText, message.ClassMedia} {
		k := excess.Key{Page: page, Class: string(class)}
		p.gate.Relimit(p.Now(), k)
		if l := p.lines[k]; l != nil {
			l.wakeAt = time.Time{}
			p.mark(l)
		}
	}
}
