package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/fakeapi/users"
	"chatclub/internal/service"
)

// program is the fake platform with what it needs from outside.
type program struct {
	settings settings
	registry *prometheus.Registry
	log      *slog.Logger
	stdout   io.Writer
	bound    func(httpAddr, adminAddr string) // told once both listen; may be nil
}

// run serves until ctx, or the users' run with EXIT, ends. Shutdown: the users
// stop, then the platform, then the admin server.
func (p program) run(ctx context.Context) error {
	s := p.settings
	api, err := fakeapi.New(fakeapi.Config{Seed: s.Seed, Settings: s.platform()})
	if err != nil {
		return err
	}
	p.registry.MustRegister(api.Collector())
	if s.PagesFileOut != "" {
		if err := p.writePages(api); err != nil {
			return err
		}
	}
	admin := service.NewAdmin(service.AdminConfig{
		Addr: s.Admin.Addr, Registry: p.registry, PProf: s.Admin.PProf, Log: p.log,
		Ready: func(context.Context) error { return nil }, // it depends on nothing
	})
	if err := admin.Listen(); err != nil {
		return err
	}
	listener, err := service.Listen(ctx, s.HTTPAddr)
	if err != nil {
		return errors.Join(err, admin.Close())
	}
	p.log.InfoContext(ctx, "fake platform listens", "addr", listener.Addr().String())
	if p.bound != nil {
		p.bound(listener.Addr().String(), admin.Addr())
	}
	var actors []service.Actor
	var chat *chat
	if s.WebhookURL != "" {
		people, err := users.New(s.users(api, p.log))
		if err != nil {
			return errors.Join(err, listener.Close(), admin.Close())
		}
		phones, err := p.phones(api, people, listener.Addr())
		if err != nil {
			return errors.Join(err, listener.Close(), admin.Close())
		}
		chat = newChat(p, api, people)
		actors = append(actors, service.Actor{Name: "users", Run: chat.run}, service.Actor{Name: "phones", Run: phones.Run})
	}
	actors = append(actors, service.Actor{Name: "http", Run: func(ctx context.Context) error { return api.Serve(ctx, listener) }}, admin.Actor())
	if err := service.Run(ctx, p.log, actors...); err != nil {
		return err
	}
	if chat != nil && s.Exit {
		return chat.final.check()
	}
	return nil
}

// phones are the users on the page that people play by hand.
func (p program) phones(api *fakeapi.API, people *users.Users, addr net.Addr) (*fakeapi.Phones, error) {
	host := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return fakeapi.NewPhones(fakeapi.PhonesConfig{
		API: api, URL: p.settings.WebhookURL, Secret: p.settings.AppSecret.Reveal(), Log: p.log,
		Pages: people.Pages(), BaseURL: "http://" + host, Ready: people.Joined(),
	})
}

// writePages writes the pages' tokens so that a reader sees the old file or
// the whole new one. They are worth nothing outside this fake.
func (p program) writePages(api *fakeapi.API) error {
	tokens := make(map[string]string, p.settings.Pages)
	for i := range p.settings.Pages {
		id := fakeapi.PageID(p.settings.FirstPage + i)
		tokens[id], _ = api.Token(id)
	}
	b, err := json.MarshalIndent(tokens, "", "  ")
	if err != nil {
		return fmt.Errorf("encode pages: %w", err)
	}
	path := p.settings.PagesFileOut
	f, err := os.CreateTemp(filepath.Dir(path), ".pages-*")
	if err != nil {
		return fmt.Errorf("write PAGES_FILE_OUT: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	// Another program, perhaps under another user, reads it.
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write PAGES_FILE_OUT: %w", err), os.Remove(f.Name()))
	}
	return nil
}
