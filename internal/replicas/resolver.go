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

const (
	// resolveEvery is the period of looking up names.
	resolveEvery = 5 * time.Second
	// lookupTime bounds the lookup of a name: a packet that is lost takes 5 s.
	lookupTime = 10 * time.Second
)

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

	mu      sync.Mutex
	at      time.Time
	found   map[string][]Replica // by address; never changed once it is set
	looking bool
}

// Replicas returns one for each IPv4 address of each name, and for each IPv6 address of
// a name that has no other: a replica may have one of both. A name that is not found
// stands for the replicas that it had before, or else is one that does not answer.
func (r *Resolver) Replicas(ctx context.Context) (all []Replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.found == nil:
		found := r.look(ctx, nil)
		if ctx.Err() == nil { // else it says nothing about the names
			r.at, r.found = time.Now(), found
		}
	case !r.looking && time.Since(r.at) >= resolveEvery:
		r.looking = true
		go func(had map[string][]Replica) { // the last answer serves until then
			found := r.look(context.WithoutCancel(ctx), had)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.at, r.found, r.looking = time.Now(), found, false
		}(r.found)
	}
	for _, address := range r.Addresses {
		all = append(all, r.found[address]...)
	}
	return all
}

// look returns what is behind each address: what it had, where that is not found.
func (r *Resolver) look(ctx context.Context, had map[string][]Replica) map[string][]Replica {
	found := make(map[string][]Replica)
	for _, address := range r.Addresses {
		bounded, cancel := context.WithTimeout(ctx, lookupTime)
		list, err := r.behind(bounded, address)
		if cancel(); err != nil && had[address] != nil {
			list = had[address]
		}
		found[address] = list
	}
	return found
}

// behind returns the replicas behind an address.
func (r *Resolver) behind(ctx context.Context, address string) (list []Replica, err error) {
	u, err := url.Parse(address)
	if err != nil { // the settings have checked it
		return nil, err
	}
	lookup := r.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	hosts, err := lookup(ctx, u.Hostname())
	if slices.ContainsFunc(hosts, isIPv4) {
		hosts = slices.DeleteFunc(hosts, func(host string) bool { return !isIPv4(host) })
	}
	if err != nil || len(hosts) < 2 {
		return []Replica{{Name: u.Host, URL: address}}, err
	}
	slices.Sort(hosts)
	for _, host := range hosts {
		one := *u
		if one.Host = host; u.Port() != "" {
			one.Host = net.JoinHostPort(host, u.Port())
		}
		list = append(list, Replica{Name: one.Host, URL: one.String()})
	}
	return list, nil
}

func isIPv4(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Is4()
}
