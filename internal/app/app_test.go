package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/service"
	"chatclub/tools/private"
	"chatclub/tools/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// password must never be printed, and nothing listens at noBroker.
const (
	password = "streng-geheim"
	noBroker = "amqp://guest:" + password + "@127.0.0.1:1/"
)

// load returns settings from variables. Every port is a free one, and no broker
// listens at AMQP_URL.
func load[T any](t *testing.T, pairs ...string) T {
	t.Helper()
	environ := map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "AMQP_URL": noBroker, "PARTITIONS": "2",
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		environ[pairs[i]] = pairs[i+1]
	}
	s, err := service.Load[T](nil, environ, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// given returns a broker in memory, and Options with it and without a log.
func given(t *testing.T) (*memory.Broker, Options) {
	t.Helper()
	b, err := memory.New(queue.Topology{Prefix: "chatclub", Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, Options{Broker: b, Log: slog.New(slog.DiscardHandler)}
}

// running is a program that runs in this process.
type running struct {
	http, admin string
	stop        func() error
}

// run runs a program until stop is called, or the test ends.
func run(t *testing.T, p *Program) running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- p.Run(ctx)
		close(ended)
	}()
	stop := func() error { cancel(); return <-ended }
	t.Cleanup(func() { _ = stop() })
	return running{http: "http://" + p.HTTPAddr(), admin: "http://" + p.AdminAddr(), stop: stop}
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

// request returns the status and body of an answer.
func request(t *testing.T, method, url string, body []byte, signature string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if signature != "" {
		req.Header.Set("X-Hub-Signature-256", signature)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res.StatusCode, string(b)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	return request(t, http.MethodGet, url, nil, "")
}

// ready returns how many messages are on a queue.
func ready(t *testing.T, b queue.Broker, name string) int {
	t.Helper()
	info, err := b.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Ready
}

// readyEvents returns the number of events that wait.
func readyEvents(t *testing.T, b queue.Broker) (n int) {
	t.Helper()
	for _, name := range b.Topology().Inbounds() {
		n += ready(t, b, name)
	}
	return n
}

// A broker that was given stays open for others.
func TestGivenBrokerStaysOpen(t *testing.T) {
	t.Parallel()
	b, opt := given(t)
	p, err := NewWebhook(t.Context(), WebhookConfig{Settings: webhookSettings(t), Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t, p).stop(); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if err := b.Publish(t.Context()); err != nil {
		t.Errorf("broker after Run: Publish = %v, want nil", err)
	}
}

// A program without an admin address has no admin server, so that many run in
// one process and in a bubble of synctest.
func TestWithoutAdmin(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	s := service.Defaults[CoreSettings]()
	s.Admin.Addr, s.DatabaseURL = "", "sqlite::memory:"
	p, err := NewCore(t.Context(), CoreConfig{Settings: s, Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	if p.AdminAddr() != "" || p.HTTPAddr() != "" {
		t.Errorf("addresses = %q and %q, want none", p.AdminAddr(), p.HTTPAddr())
	}
	if err := run(t, p).stop(); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if err := p.Ready(t.Context()); err == nil || err.Error() != "stopping" {
		t.Errorf("Ready after Run = %v, want stopping", err)
	}
}

// Two programs of one kind share a registry when they have names.
func TestNamesLabelTheMetrics(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	opt.Registry = prometheus.NewRegistry()
	s := webhookSettings(t)
	s.Admin.Addr = ""
	for _, opt.Name = range []string{"one", "two"} {
		p, err := NewWebhook(t.Context(), WebhookConfig{Settings: s, Options: opt})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
	}
	families, err := opt.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "chatclub_webhook_readers" {
			continue
		}
		for i, want := range []string{"one", "two"} {
			if l := f.GetMetric()[i].GetLabel(); len(l) != 1 || l[0].GetName() != "program" || l[0].GetValue() != want {
				t.Errorf("labels of metric %d = %v, want program %s", i, l, want)
			}
		}
	}
}

// The address of a program that failed or was closed is free again.
func TestCloseFreesTheAddresses(t *testing.T) {
	t.Parallel()
	_, opt := given(t)
	s := webhookSettings(t)
	ports, err := private.Ports(2)
	if err != nil {
		t.Fatal(err)
	}
	taken, free := fmt.Sprint("127.0.0.1:", ports[0]), fmt.Sprint("127.0.0.1:", ports[1])
	s.Admin.Addr, s.HTTPAddr = taken, free
	first, err := NewWebhook(t.Context(), WebhookConfig{Settings: s, Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.http.Close(); err != nil {
		t.Fatal(err)
	}
	// A program that is just being started holds for a moment the ports that this one had open.
	for range 2 { // the second time the first left nothing behind
		program.Eventually(t, free+" is free", func() error {
			p, err := NewWebhook(t.Context(), WebhookConfig{Settings: s, Options: opt})
			if err != nil && strings.Contains(err.Error(), free) {
				return err
			}
			if err == nil || p != nil || !strings.Contains(err.Error(), taken) {
				t.Fatalf("NewWebhook with ADMIN_ADDR in use = %v, %v, want an error that names %s", p, err, taken)
			}
			return nil
		})
	}
	if err := first.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	var second *Program
	program.Eventually(t, "the addresses that were closed are free", func() (err error) {
		second, err = NewWebhook(t.Context(), WebhookConfig{Settings: s, Options: opt})
		return err
	})
	if err := errors.Join(second.Close(), second.Close()); err != nil {
		t.Errorf("Close twice = %v, want nil", err)
	}
}

// A program makes its own connection from the settings, and does not wait for
// the broker.
func TestBrokerFromSettings(t *testing.T) {
	t.Parallel()
	s := load[WebhookSettings](t, "APP_SECRET", "x", "VERIFY_TOKEN", "x", "QUEUE_PREFIX", "p", "PARTITIONS", "3")
	w, err := begin(t.Context(), "test", s.ProgramSettings, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := w.Broker.Topology(), (queue.Topology{Prefix: "p", Partitions: 3}); got != want {
		t.Errorf("Topology() = %+v, want %+v", got, want)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	if err := w.Broker.Publish(t.Context()); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("broker after Close: Publish = %v, want ErrClosed", err)
	}
	s.Broker.AMQPURL = ""
	if _, err := begin(t.Context(), "test", s.ProgramSettings, Options{Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("begin without an address = nil, want an error")
	}
}

// A program ends by itself, with one line, where RabbitMQ is too old for it.
func TestTooOldBrokerEndsTheProgram(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := load[WebhookSettings](t, "APP_SECRET", "x", "VERIFY_TOKEN", "x", "AMQP_URL", rabbittest.Handshake(t, "3.13.7"))
	p, err := NewWebhook(t.Context(), WebhookConfig{Settings: s, Options: Options{
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "broker: the server is RabbitMQ 3.13.7: 4.0 or later is needed"
	if err := p.Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Run() = %v, want %s", err, want)
	}
	if log.Len() > 0 {
		t.Errorf("it logged %q beside its error, want nothing", log.String())
	}
}

// failing is a broker that cannot be closed.
type failing struct {
	queue.Broker
	err error
}

func (f failing) Close() error { return f.err }

func TestRunReportsABrokerThatDoesNotClose(t *testing.T) {
	t.Parallel()
	b, opt := given(t)
	stuck := errors.New("stuck")
	opt.Broker, opt.ownsBroker = failing{b, stuck}, true
	p, err := NewWebhook(t.Context(), WebhookConfig{Settings: webhookSettings(t), Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t, p).stop(); !errors.Is(err, stuck) || err.Error() != "broker: close broker: stuck" {
		t.Errorf("Run = %v, want broker: close broker: stuck", err)
	}
}
