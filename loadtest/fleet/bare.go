package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"chatclub/internal/article"
	"chatclub/internal/message"
	"chatclub/internal/queue"
	"chatclub/internal/service"
)

// Bare is not a strategy but what a dispatcher is measured against. It is the
// loop that one would write without thinking of limits, and written well: it
// consumes, posts and acknowledges. What lies on its queue is the body to post
// (see [BareBody]), so it decodes and encodes nothing. It knows no limits, no
// order, no time to live, no retries and no dead letters, it counts nothing, and
// it does not reconnect. A message whose call is refused goes back to the queue.
const Bare = "bare loop"

// bareWorkers make calls at a time where the options say nothing, as many as a
// good simple consumer would.
const bareWorkers = 64

// graphVersion is the first part of the Send API's paths.
const graphVersion = "/v23.0"

// BareBody returns what lies on the bare loop's queue in place of a message: the
// body that package sender would post.
func BareBody(m message.Outbound) ([]byte, error) {
	type recipient struct {
		ID string `json:"id"`
	}
	type text struct {
		Text     string `json:"text"`
		Metadata string `json:"metadata"`
	}
	return json.Marshal(struct {
		Recipient recipient `json:"recipient"`
		Type      string    `json:"messaging_type"`
		Message   text      `json:"message"`
	}{recipient{m.To}, "UPDATE", text{m.Text, m.ID}})
}

// bareLoop posts what it takes from its queue. posted counts the messages, for
// the operations of the broker.
type bareLoop struct {
	graph  string
	client *http.Client
	posted atomic.Int64
}

// newBareLoop returns a loop that calls the platform at an address. transport is
// for one without a socket; nil: one with the settings of package sender's own.
func newBareLoop(graph string, transport http.RoundTripper, workers int) *bareLoop {
	if transport == nil {
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		transport = &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: callTimeout}).DialContext,
			Protocols:   &protocols, DisableCompression: true,
			MaxIdleConns: workers, MaxIdleConnsPerHost: workers, MaxConnsPerHost: workers,
			IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &bareLoop{graph: graph, client: &http.Client{Transport: transport, Timeout: callTimeout}}
}

// post makes the call of a message, and reports whether the platform took it.
func (l *bareLoop) post(ctx context.Context, id string, body []byte) (taken bool, err error) {
	l.posted.Add(1)
	page, _, _ := strings.Cut(id, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.graph+graphVersion+"/"+page+"/messages", bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("bare loop: %w", err)
	}
	req.Header.Set("Authorization", "Bearer token-"+page)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "chatclub")
	resp, err := l.client.Do(req)
	if err != nil {
		return false, fmt.Errorf("bare loop: %w", err)
	}
	_, err = io.Copy(io.Discard, resp.Body) // otherwise the connection would be lost
	return resp.StatusCode == http.StatusOK, errors.Join(err, resp.Body.Close())
}

// workers returns how many calls the loop makes at a time.
func (o *Options) workers() int {
	if o.MaxInFlight > 0 {
		return o.MaxInFlight
	}
	return bareWorkers
}

// bare runs the loop on a broker of ours until ctx ends. What is in hand then is
// settled.
func (p *parts) bare(ctx context.Context, o Options) (err error) {
	l := newBareLoop("http://fakeapi", p.transport, o.workers())
	sub, err := p.broker.Consume(article.Queue(p.broker.Topology()).Name, queue.ConsumeOptions{Prefetch: prefetch})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sub.Close()) }()
	workers, ctx := errgroup.WithContext(ctx)
	for range o.workers() {
		workers.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case d, ok := <-sub.Deliveries():
					if !ok {
						return nil
					}
					if err := p.handle(context.WithoutCancel(ctx), l, d); err != nil {
						return err
					}
				}
			}
		})
	}
	return workers.Wait()
}

func (p *parts) handle(ctx context.Context, l *bareLoop, d *queue.Delivery) error {
	taken, err := l.post(ctx, d.ID, d.Body)
	if err == nil && taken {
		err = d.Ack()
	} else { // by the dispatcher's own connection, which, unlike the delivery's, may have been cut
		err = queue.TransferAll(ctx, p.broker, []queue.Transfer{{Delivery: d, To: []queue.Message{d.Message}}})[0]
	}
	if errors.Is(err, queue.ErrStale) {
		return nil // it comes again
	}
	return err
}

// bare is a process that runs the loop with the AMQP library alone.
func (o *childSpec) bare(ctx context.Context, reg *prometheus.Registry) (func(context.Context) error, error) {
	l := newBareLoop(o.Graph, nil, o.Options.workers())
	for _, name := range []string{deliveredMetric, settledMetric} { // one of each for a message
		reg.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: name, Help: "Messages."}, func() float64 { return float64(l.posted.Load()) }))
	}
	conn, err := amqp.Dial(o.AMQPURL)
	if err != nil {
		return nil, fmt.Errorf("dial the broker: %s", service.OneLine(err))
	}
	in, err := o.consume(ctx, conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("consume: %w", err), conn.Close())
	}
	return func(ctx context.Context) error {
		workers, ctx := errgroup.WithContext(ctx)
		for range o.Options.workers() {
			workers.Go(func() error { return l.work(ctx, in) })
		}
		err := workers.Wait()
		l.client.CloseIdleConnections()
		return errors.Join(err, conn.Close())
	}, nil
}

func (o *childSpec) consume(ctx context.Context, conn *amqp.Connection) (<-chan amqp.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return nil, err
	}
	return ch.ConsumeWithContext(context.WithoutCancel(ctx), article.Queue(o.Topology).Name, "", false, false, false, false, nil)
}

// errLostBroker is why a loop ends that was not asked to.
var errLostBroker = errors.New("bare loop: the broker closed the connection")

// work sends one message after another until ctx ends.
func (l *bareLoop) work(ctx context.Context, in <-chan amqp.Delivery) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-in:
			if !ok {
				return errLostBroker
			}
			taken, err := l.post(context.WithoutCancel(ctx), d.MessageId, d.Body)
			switch {
			case err != nil:
				return err
			case taken:
				err = d.Ack(false)
			default:
				err = d.Nack(false, true)
			}
			if err != nil {
				return fmt.Errorf("bare loop: settle: %w", err)
			}
		}
	}
}
