package replicas

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"
)

// resolveEvery is the period of looking up names.
const resolveEvery = 5 * time.Second

// Replica is one process with an admin port.
type Replica struct {
	Name string // its host and port
	URL  string
}

// Each calls ask for all replicas at once, and returns the errors of all.
func Each[R any](list []R, ask func(i int, r R) error) error {
	errs := make([]error, len(list))
	var asking sync.WaitGroup
	for i, r := range list {
		asking.Go(func() { errs[i] = ask(i, r) })
	}
	asking.Wait()
	return errors.Join(errs...)
}

// Resolver finds the replicas behind addresses. Safe for concurrent use.
type Resolver struct {
	Addresses []string                                                 // such as http://dispatcher:9090
	Lookup    func(ctx context.Context, host string) ([]string, error) // nil: the machine's resolver

	mu    sync.Mutex
	at    time.Time
	found []Replica
}

// Replicas returns one for each IPv4 address of each name, and for each IPv6 address of
// a name that has no other: a replica may have one of both. A name that is not found
// is a replica that does not answer.
func (r *Resolver) Replicas(ctx context.Context) []Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < resolveEvery {
		return r.found
	}
	lookup := r.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	r.at, r.found = time.Now(), nil
	for _, address := range r.Addresses {
		u, err := url.Parse(address)
		if err != nil { // the settings have checked it
			continue
		}
		hosts, err := lookup(ctx, u.Hostname())
		if slices.ContainsFunc(hosts, isIPv4) {
			hosts = slices.DeleteFunc(hosts, func(host string) bool { return !isIPv4(host) })
		}
		if err != nil || len(hosts) < 2 {
			r.found = append(r.found, Replica{Name: u.Host, URL: address})
			continue
		}
		slices.Sort(hosts)
		for _, host := range hosts {
			one := *u
			if one.Host = host; u.Port() != "" {
				one.Host = net.JoinHostPort(host, u.Port())
			}
			r.found = append(r.found, Replica{Name: one.Host, URL: one.String()})
		}
	}
	return r.found
}

func isIPv4(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Is4()
}
