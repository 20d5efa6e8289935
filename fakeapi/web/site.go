// Package web shows a fake platform on a page, and lets people play users of it
// by hand: the phones.
//
// The phones do not disturb the ledger's judgement. They join when all simulated
// users have, so that they take no other user's place. The ledger cannot know
// which users share a room with a phone, so the copies of a phone's messages are
// not announced. A copy for a phone, or of a phone's message, counts as expected
// at the moment it is accepted. It is judged for duplicates, but neither for loss
// nor for order. The answer to "Get Started" can be known, and is announced.
package web

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"chatclub/fakeapi"
	"chatclub/fakeapi/webhook"
)

// Config describes a Site. API must be set.
type Config struct {
	API *fakeapi.API
	// Webhook is the receiver of the phones' events. Without a URL there are no phones.
	// New sets Now and MaxInFlight; RetryFor is 30 s by default.
	Webhook webhook.Config

	Pages   []string // that a phone may write to; must be set where there are phones
	Phones  int      // in the beginning, on the first page; default 3
	Quiet   string   // page of the last of them; default the first
	BaseURL string   // of the platform itself, where the pictures are; default http://localhost
	// Ready holds back the phones' first events until it is closed; nil: not at
	// all. With simulated users it must be closed when these have joined. A phone
	// that came earlier would take a place of theirs, and they would expect the
	// wrong members in a room.
	Ready <-chan struct{}
	// AnyBot says that a phone which taps "Get Started" need not be welcomed: the system
	// under test is no system of rooms.
	AnyBot bool
}

// Site is the page of a platform, with its phones. New makes one; the phones
// live while Run does. All methods are safe for concurrent use.
type Site struct {
	api     *fakeapi.API
	phones  *phones // nil: there are none
	started time.Time
}

// New makes a site and adds it to the platform, which can have one.
func New(c Config) (*Site, error) {
	if c.API == nil {
		return nil, errors.New("new site: API must be set")
	}
	s := &Site{api: c.API, started: c.API.Now()}
	x := fakeapi.Extension{Handle: s.handle, HandlePage: s.handlePage}
	if c.Webhook.URL != "" {
		var err error
		if s.phones, err = newPhones(c); err != nil {
			return nil, fmt.Errorf("new site: %w", err)
		}
		x.People = s.phones
	}
	if err := c.API.Extend(x); err != nil {
		return nil, fmt.Errorf("new site: %w", err)
	}
	if s.phones != nil {
		c.API.Observe(s.phones.deliver)
		c.API.ReportUsers(s.phones.counts)
	}
	return s, nil
}

// Run posts the phones' messages until ctx ends. Then it gives up the posts that
// are under way, waits for its goroutines and returns nil.
func (s *Site) Run(ctx context.Context) error {
	if s.phones == nil {
		<-ctx.Done()
		return nil
	}
	s.phones.run(ctx)
	return nil
}

// handlePage answers a browser's GET and reports whether it was for the site.
func (s *Site) handlePage(ctx *fasthttp.RequestCtx, done <-chan struct{}) bool {
	address := string(ctx.Path())
	if address == "/events" {
		s.serveEvents(ctx, done)
		return true
	}
	body, header := findFile(address)
	if body == nil {
		return false
	}
	for name, value := range header {
		ctx.Response.Header.Set(name, value)
	}
	ctx.SetBody(body)
	return true
}
