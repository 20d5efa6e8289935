package faults

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

// links are ways of TCP connections from one program to a server, which can be made to
// fail. Each is a proxy of toxiproxy's, in this process, whose own server is never
// started. Make one with newLinks: there is one in a process, because toxiproxy keeps
// its kinds of toxics, and its log, in variables of its own.
type links struct {
	server *toxiproxy.ApiServer
	all    map[string][]*link // of each program, by its name and that of the other end
}

func newLinks() *links {
	zerolog.SetGlobalLevel(zerolog.Disabled)
	toxics.Register(holdToxic, new(hold))
	return &links{server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), all: make(map[string][]*link)}
}

// link is one way. Its methods may be called at once; each fault is laid over
// those before it, until Heal.
type link struct {
	mu    sync.Mutex
	proxy *toxiproxy.Proxy
	names []string // of the toxics in force
}

// open opens a way to an address, and returns the address on this machine where it
// begins. All that passes is untouched until it is made to fail.
func (l *links) open(name, to string) (string, error) {
	proxy := toxiproxy.NewProxy(l.server, name, "127.0.0.1:0", to)
	if err := proxy.Start(); err != nil {
		return "", fmt.Errorf("open the way %s: %w", name, err)
	}
	l.all[name] = append(l.all[name], &link{proxy: proxy})
	return proxy.Listen, nil
}

// close ends every way.
func (l *links) close() error {
	var faults []error
	for _, ways := range l.all {
		for _, way := range ways {
			faults = append(faults, way.heal(), way.cut()) // healed, else a held connection would never end
		}
	}
	return errors.Join(faults...)
}

// cut ends every connection, and refuses new ones.
func (l *link) cut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
	return nil
}

// reset ends every connection once, and takes new ones.
func (l *link) reset() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
	return l.startLocked()
}

// halfOpen loses all that either side says, their ends of connections included.
// New connections are taken, and are as silent.
func (l *link) halfOpen() error { return l.add(holdToxic, struct{}{}) }

// slow lets SlowRate pass in each direction.
func (l *link) slow() error { return l.add("bandwidth", toxics.BandwidthToxic{Rate: SlowRate}) }

// delay makes everything late, by LateBy more or less.
func (l *link) delay() error {
	return l.add("latency", toxics.LatencyToxic{Latency: LateBy.Milliseconds(), Jitter: LateJitter.Milliseconds()})
}

// add lays a toxic over both directions.
func (l *link) add(kind string, attributes any) error {
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

// heal ends every fault. Connections that were half open end with it: all that was
// said on them is lost.
func (l *link) heal() error {
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
func (l *link) startLocked() error {
	if l.proxy.Enabled {
		return nil
	}
	if err := l.proxy.Start(); err != nil {
		return fmt.Errorf("open the way %s again: %w", l.proxy.Name, err)
	}
	return nil
}

// resetting ends the connections of links again and again, until the function that it
// returns is called.
func resetting(list []*link, every time.Duration) (end func(context.Context) error) {
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			var err error
			for _, l := range list {
				err = errors.Join(err, l.reset())
			}
			if err != nil {
				done <- err
				return
			}
			select {
			case <-stop:
				done <- nil
				return
			case <-ticks.C:
			}
		}
	}()
	return func(context.Context) error {
		close(stop)
		return <-done
	}
}

// holdToxic is the name by which toxiproxy knows hold.
const holdToxic = "hold"

// hold is a toxic that passes nothing on, not even that a side has closed its
// connection: so does a network that has lost its way. toxiproxy's own timeout
// passes the end on, by which the other side learns at once that it is alone.
type hold struct{}

// Pipe implements toxics.Toxic.
func (*hold) Pipe(stub *toxics.ToxicStub) {
	input := stub.Input
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-input:
			if chunk == nil { // the end; it is kept back until the toxic is removed
				input = nil
			}
		}
	}
}

// Cleanup implements toxics.CleanupToxic: what was lost is lost, so the connection
// is useless.
func (*hold) Cleanup(stub *toxics.ToxicStub) { stub.Close() }
