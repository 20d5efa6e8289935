package main

import (
	"context"
	"fmt"
	"slices"

	"chatclub/internal/service"
	"chatclub/loadtest/fleet"
	"chatclub/loadtest/peer"
	"chatclub/loadtest/strategy"
	"chatclub/loadtest/trial"
)

// addPeers puts the peers that were asked for behind the strategies.
func (p *parsed) addPeers() (err error) {
	if p.peers == "" {
		return nil
	}
	if p.others, err = peer.Find(p.peers); err != nil {
		return err
	}
	for _, other := range p.others {
		if _, taken := strategy.Find(other.Name); taken {
			return fmt.Errorf("%s is the name of a strategy", other.Name)
		}
		p.list = append(p.list, strategy.Info{Name: other.Name, Source: other.Source, Caveat: other.Caveat})
	}
	return nil
}

// peer returns the peer of a name.
func (p *parsed) peer(name string) (peer.Peer, bool) {
	i := slices.IndexFunc(p.others, func(other peer.Peer) bool { return other.Name == name })
	if i < 0 {
		return peer.Peer{}, false
	}
	return p.others[i], true
}

// addresses are of the servers that the flags name.
func (p *parsed) addresses() peer.Addresses {
	a := peer.Addresses{Redis: p.redis, PostgreSQL: p.postgres, RabbitMQ: p.broker}
	if p.broker == memoryBroker {
		a.RabbitMQ = ""
	}
	return a
}

// preparePeers makes the peers' programs, and notes on what each will run. Those
// that cannot run are taken from the list, with a note of the reason.
func (p *parsed) preparePeers(ctx context.Context) {
	for _, other := range p.others {
		on, err := p.preparePeer(ctx, other)
		if err == nil {
			p.ranOn = append(p.ranOn, fmt.Sprintf("%s is %s; it runs on %s", other.Name, other.Source, on))
			continue
		}
		p.leftOut = append(p.leftOut, fmt.Sprintf("%s is left out: %s", other.Name, service.OneLine(err)))
		p.list = slices.DeleteFunc(p.list, func(info strategy.Info) bool { return info.Name == other.Name })
	}
}

func (p *parsed) preparePeer(ctx context.Context, other peer.Peer) (on string, err error) {
	if p.common.Via == trial.ViaWebhook {
		return "", fmt.Errorf("its only entry is its feeder (-via %s)", trial.ViaOutbound)
	}
	if on, err = other.Have(ctx, p.addresses()); err != nil {
		return "", err
	}
	return on, other.Prepare(ctx)
}

// openPeer makes the system of a peer.
func (p *parsed) openPeer(ctx context.Context, cfg fleet.Config, other peer.Peer) (fleet.Fleet, error) {
	f, err := fleet.OpenPeers(ctx, cfg, other, p.addresses())
	if err != nil {
		return nil, err // and no *fleet.Peers, which as a Fleet would not be nil
	}
	return f, nil
}
