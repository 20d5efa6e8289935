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
	// firstLookup bounds the first lookup of all names: a packet that is lost takes 5 s.
	firstLookup = 10 * time.Second
	// nextLookup bounds the others, whose names have an answer already.
	nextLookup = time.Second
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

	mu    sync.Mutex
	at    time.Time
	found map[string][]Replica // by address
}

// Replicas returns one for each IPv4 address of each name, and for each IPv6 address of
// a name that has no other: a replica may have one of both. A name that is not found
// stands for the replicas that it had before, or else is one that does not answer.
func (r *Resolver) Replicas(ctx context.Context) (all []Replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) >= resolveEvery {
		r.lookLocked(ctx)
	}
	for _, address := range r.Addresses {
		all = append(all, r.found[address]...)
	}
	return all
}

// lookLocked looks up all names. Once ctx has ended its errors say nothing about them.
func (r *Resolver) lookLocked(ctx context.Context) {
	wait := nextLookup
	if r.found == nil {
		r.found, wait = make(map[string][]Replica), firstLookup
	}
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for _, address := range r.Addresses {
		if list, err := r.behind(bounded, address); err == nil || r.found[address] == nil {
			r.found[address] = list
		}
	}
	if ctx.Err() == nil {
		r.at = time.Now()
	}
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
