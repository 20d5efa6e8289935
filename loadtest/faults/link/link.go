// Package link is a TCP connection's way from one program to a server, which can
// be made to fail: cut, half open, slow, late or reset. What passes is untouched
// until then. Each way is a proxy of toxiproxy's, in this process.
package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// Proxies makes links. Make one with NewProxies: there is one in a process, because
// toxiproxy keeps its kinds of toxics, and its log, in variables of its own.
type Proxies struct{ server *toxiproxy.ApiServer }

// NewProxies returns a maker of links, and silences toxiproxy's log. Its server of
// proxies is never started: nobody else can change them.
func NewProxies() *Proxies {
	zerolog.SetGlobalLevel(zerolog.Disabled)
	toxics.Register(holdToxic, new(hold))
	return &Proxies{server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
}

// Link is one way. Its methods may be called at once; each fault is laid over
// those before it, until Heal.
type Link struct {
	mu    sync.Mutex
	proxy *toxiproxy.Proxy
	names []string // of the toxics in force
}

// New opens a way from a port of this machine, which Addr returns, to an address.
// The caller closes it.
func (p *Proxies) New(name, to string) (*Link, error) {
	proxy := toxiproxy.NewProxy(p.server, name, "127.0.0.1:0", to)
	if err := proxy.Start(); err != nil {
		return nil, fmt.Errorf("open the way %s: %w", name, err)
	}
	return &Link{proxy: proxy}, nil
}

// Addr is where the way begins.
func (l *Link) Addr() string { return l.proxy.Listen }

// Cut ends every connection, and refuses new ones.
func (l *Link) Cut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
	return nil
}

// Reset ends every connection once, and takes new ones.
func (l *Link) Reset() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
	return l.startLocked()
}

// HalfOpen loses all that either side says, their ends of connections included.
// New connections are taken, and are as silent.
func (l *Link) HalfOpen() error { return l.add(holdToxic, struct{}{}) }

// Slow lets a number of kilobytes a second pass in each direction.
func (l *Link) Slow(kilobytes int64) error {
	return l.add("bandwidth", toxics.BandwidthToxic{Rate: kilobytes})
}

// Delay makes everything late, by so much more or less.
func (l *Link) Delay(by, jitter time.Duration) error {
	return l.add("latency", toxics.LatencyToxic{Latency: by.Milliseconds(), Jitter: jitter.Milliseconds()})
}

// add lays a toxic over both directions.
func (l *Link) add(kind string, attributes any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, direction := range []string{"upstream", "downstream"} {
		name := kind + " " + direction
		b, err := json.Marshal(map[string]any{"name": name, "type": kind, "stream": direction, "attributes": attributes})
		if err == nil {
			_, err = l.proxy.Toxics.AddToxicJson(strings.NewReader(string(b)))
		}
		if err != nil {
			return fmt.Errorf("make the way %s fail: %w", l.proxy.Name, err)
		}
		l.names = append(l.names, name)
	}
	return nil
}

// Heal ends every fault. Connections that were half open end with it: what was
// said on them is lost.
func (l *Link) Heal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var faults []error
	for _, name := range l.names {
		faults = append(faults, l.proxy.Toxics.RemoveToxic(context.Background(), name))
	}
	l.names = nil
	return errors.Join(append(faults, l.startLocked())...)
}

// startLocked takes connections again, at the same port.
func (l *Link) startLocked() error {
	if l.proxy.Enabled {
		return nil
	}
	if err := l.proxy.Start(); err != nil {
		return fmt.Errorf("open the way %s again: %w", l.proxy.Name, err)
	}
	return nil
}

// Close ends every connection and the way.
func (l *Link) Close() error {
	err := l.Heal() // else what holds a connection would never end
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
	return err
}
