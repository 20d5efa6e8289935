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
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/fakeapi"
	"chatclub/fakeapi/users"
	"chatclub/fakeapi/web"
	"chatclub/internal/service"
)

// program is the fake platform with everything that it needs from outside.
type program struct {
	settings settings
	registry *prometheus.Registry
	log      *slog.Logger
	level    *service.LogLevel // of log; nil: it cannot be changed
	stdout   io.Writer
	bound    func(httpAddr, adminAddr string) // called once both listen; may be nil
}

// run serves until ctx, or the users' run with EXIT, ends. Shutdown: the users
// stop, then the platform, then the admin server. The users wait for what they
// wrote to arrive, until again ends too.
func (p program) run(ctx, again context.Context) error {
	if p.settings.FirstPage == 0 {
		p.settings.FirstPage = users.FreshPage(time.Now())
	}
	s := p.settings
	host, _, _ := net.SplitHostPort(s.HTTPAddr) // Validate has checked it
	api, err := fakeapi.New(fakeapi.Config{Seed: s.Seed, AppSecret: s.AppSecret.Reveal(), Settings: s.platform(), Host: host, Keep: s.LedgerKeep})
	if err != nil {
		return err
	}
	p.registry.MustRegister(api.Collector())
	if s.PagesFileOut != "" {
		if err := p.writePages(api); err != nil {
			return err
		}
	}
	// Both are bound before anything starts, so that a port in use is known.
	operators, err := service.Listen(ctx, s.Admin.Addr)
	if err != nil {
		return err
	}
	listener, err := service.Listen(ctx, s.HTTPAddr)
	if err != nil {
		return errors.Join(err, operators.Close())
	}
	admin := service.NewAdmin(service.AdminConfig{
		Addr: s.Admin.Addr, Listener: operators, Registry: p.registry, Tokens: s.Admin.Tokens, PProf: s.Admin.PProf, Log: p.log, LogLevel: p.level,
	})
	p.log.InfoContext(ctx, "fake platform listens", "addr", listener.Addr().String())
	if p.bound != nil {
		p.bound(listener.Addr().String(), admin.Addr())
	}
	chat, actors, err := p.people(again, api, listener.Addr())
	if err != nil {
		return errors.Join(err, listener.Close(), operators.Close())
	}
	actors = append(actors, service.Actor{Name: "http", Run: func(ctx context.Context) error { return api.Serve(ctx, listener) }}, admin.Actor())
	if err := service.Run(ctx, p.log, actors...); err != nil {
		return err
	}
	if chat != nil && s.Exit {
		return chat.fault
	}
	return nil
}

// people adds the page to the platform and, where it knows a webhook, simulated
// users and the page's phones. chat is nil without them.
func (p program) people(again context.Context, api *fakeapi.API, addr net.Addr) (chat *chat, actors []service.Actor, err error) {
	site := web.Config{API: api}
	s := p.settings
	if s.WebhookURL != "" {
		site.Webhook, site.BaseURL, site.AnyBot = s.webhook(p.log), baseURL(addr), s.Users == 0
		for i := range s.Pages {
			site.Pages = append(site.Pages, fakeapi.PageID(s.FirstPage+i))
		}
	}
	if s.WebhookURL != "" && s.Users > 0 {
		people, err := users.New(s.users(api, p.log))
		if err != nil {
			return nil, nil, err
		}
		chat = newChat(p, api, people)
		actors = append(actors, service.Actor{Name: "users", Run: func(ctx context.Context) error { return chat.run(ctx, again) }})
		site.Ready = people.Joined()
	}
	page, err := web.New(site)
	if err != nil {
		return nil, nil, err
	}
	return chat, append(actors, service.Actor{Name: "page", Run: page.Run}), nil
}

// baseURL returns the platform's address as a browser on this machine uses it.
func baseURL(addr net.Addr) string {
	host := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return "http://" + host
}

// writePages writes the pages' tokens so that a reader sees the old file or
// the whole new one. They are worth nothing outside this fake. The pages that the
// file has stay in it, because a dispatcher that runs refuses a file that has lost
// its pages.
func (p program) writePages(api *fakeapi.API) error {
	tokens := make(map[string]string, p.settings.Pages)
	if old, err := os.ReadFile(p.settings.PagesFileOut); err == nil {
		_ = json.Unmarshal(old, &tokens) // a file of another kind is replaced
	}
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
