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
	"chatclub/fakeapi/ledger"
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
	var users *users
	if s.WebhookURL != "" {
		source, err := fakeapi.NewSource(s.users(api, p.log))
		if err != nil {
			return errors.Join(err, listener.Close(), admin.Close())
		}
		phones, err := p.phones(api, source, listener.Addr())
		if err != nil {
			return errors.Join(err, listener.Close(), admin.Close())
		}
		users = newUsers(p, api, source)
		actors = append(actors, service.Actor{Name: "users", Run: users.run}, service.Actor{Name: "phones", Run: phones.Run})
	}
	actors = append(actors, service.Actor{Name: "http", Run: func(ctx context.Context) error { return api.Serve(ctx, listener) }}, admin.Actor())
	if err := service.Run(ctx, p.log, actors...); err != nil {
		return err
	}
	if users != nil && s.Exit {
		return users.final.balance()
	}
	return nil
}

// phones are the users on the page that people play by hand.
func (p program) phones(api *fakeapi.API, source *fakeapi.Source, addr net.Addr) (*fakeapi.Phones, error) {
	pages := make([]string, p.settings.Pages)
	for i := range pages {
		pages[i] = source.Page(i)
	}
	host := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return fakeapi.NewPhones(fakeapi.PhonesConfig{
		API: api, URL: p.settings.WebhookURL, Secret: p.settings.AppSecret.Reveal(), Log: p.log,
		Pages: pages, BaseURL: "http://" + host, Ready: source.Joined(),
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

// users is the part of the run that the simulated users play.
type users struct {
	program
	api    *fakeapi.API
	source *fakeapi.Source
	final  verdict // when they have ended
}

func newUsers(p program, api *fakeapi.API, source *fakeapi.Source) *users {
	return &users{program: p, api: api, source: source}
}

// run lets them join and chat, waits for what is awaited and prints the last
// line. It returns then with EXIT, otherwise when ctx ends.
func (u *users) run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- u.play(ctx) }()
	var report <-chan time.Time
	if u.settings.ReportEvery > 0 {
		t := time.NewTicker(u.settings.ReportEvery)
		defer t.Stop()
		report = t.C
	}
	for {
		select {
		case <-report:
			u.report(ctx)
		case err := <-done:
			u.final = verdict{u.api.Ledger().Totals(), u.source.Counts().Undelivered}
			fmt.Fprintln(u.stdout, line(u.final.Counts))
			if err != nil || u.settings.Exit {
				return err
			}
			<-ctx.Done()
			return nil
		}
	}
}

func (u *users) play(ctx context.Context) error {
	if err := u.source.Join(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ending ctx is how a run without end is ended
	}
	u.log.InfoContext(ctx, "users joined", "users", u.source.Counts().Joined)
	if err := u.source.Chat(ctx, u.settings.Duration); err != nil {
		return err
	}
	u.log.InfoContext(ctx, "chat ended")
	u.source.Settle(ctx, u.settings.SettleTimeout)
	return nil
}

func (u *users) report(ctx context.Context) {
	c, s := u.api.Ledger().Totals(), u.source.Counts()
	u.log.InfoContext(ctx, "ledger", "events", c.Events, "expected", c.Expected, "accepted", c.Accepted, "refused", c.Refused,
		"errors", c.Errors, "awaited", c.Pending, "duplicated", c.Duplicated, "unexpected", c.Unexpected,
		"undelivered", s.Undelivered, "skipped", s.Skipped, "alerts", s.Alerts, "answer_p99", s.AnswerP99)
}

// line is the ledger in one line.
func line(c ledger.Counts) string {
	return fmt.Sprintf("events %d expected %d accepted %d refused %d lost %d duplicated %d unexpected %d",
		c.Events, c.Expected, c.Accepted, c.Refused, c.Lost, c.Duplicated, c.Unexpected)
}

// verdict is what the run is judged by.
type verdict struct {
	ledger.Counts
	undelivered int64 // events that the system never took
}

// balance is an error when v shows a fault of the system under test.
func (v verdict) balance() error {
	if v.Lost == 0 && v.Duplicated == 0 && v.Unexpected == 0 && v.Unidentified == 0 && v.undelivered == 0 && v.Accepted > 0 {
		return nil
	}
	return fmt.Errorf("the ledger does not balance: lost %d, duplicated %d, unexpected %d, without id %d of %d accepted; %d events not taken",
		v.Lost, v.Duplicated, v.Unexpected, v.Unidentified, v.Accepted, v.undelivered)
}
