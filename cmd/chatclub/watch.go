package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"chatclub/internal/console"
	"chatclub/internal/replicas"
	"chatclub/internal/service"
)

// watchSettings are those of `chatclub watch`, which serves the page beside a
// deployment.
type watchSettings struct {
	HTTPAddr   string         `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" doc:"Address of the page; port 0 takes a free one. Whoever reaches it sees what the admin ports tell."`
	Dispatcher []string       `env:"DISPATCHERS,required" doc:"Admin addresses of the dispatchers, such as http://dispatcher:9090, with commas between them. A name stands for all its addresses."`
	AdminToken service.Secret `env:"ADMIN_TOKEN" doc:"Token of the admin ports. With it, suspended pages can be resumed on the page; empty: the page only shows."`
	service.LogSettings
}

// About says what the program does.
func (watchSettings) About() string {
	return "chatclub watch serves a page that shows what the dispatchers of a deployment do."
}

// Validate names every fault.
func (s watchSettings) Validate() error {
	return errors.Join(
		service.CheckAddr("HTTP_ADDR", s.HTTPAddr),
		service.CheckToken("ADMIN_TOKEN", s.AdminToken),
		service.CheckHTTPURLs("DISPATCHERS", s.Dispatcher),
	)
}

// watchEvery is how often the dispatchers are asked.
const watchEvery = time.Second

// serve serves the page until ctx ends.
func (s watchSettings) serve(ctx context.Context, stdout, stderr io.Writer) error {
	log, _ := service.NewLogger(s.LogSettings, stderr)
	page, err := console.New(console.Config{
		Replicas: console.Behind(&replicas.Resolver{Addresses: s.Dispatcher}), Token: s.AdminToken.Reveal(), Every: watchEvery,
	})
	if err != nil {
		return err
	}
	ln, err := service.Listen(ctx, s.HTTPAddr)
	if err != nil {
		return fmt.Errorf("HTTP_ADDR: %w", err)
	}
	fmt.Fprintf(stdout, "chatclub watches: open http://%s\n", ln.Addr())
	return service.Run(ctx, log,
		service.Actor{Name: "console", Run: page.Run},
		service.Actor{Name: "page", Run: func(ctx context.Context) error {
			return servePage(ctx, ln, page, s.HTTPAddr, log)
		}})
}
