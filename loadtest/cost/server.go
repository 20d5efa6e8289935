package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/valyala/fasthttp"

	"chatclub/fakeapi"
)

// serve is the server process: it prints its address and then, for each line
// that it reads, its CPU time so far in µs. It ends with its input.
func serve(ctx context.Context, name string, stdin io.Reader, stdout io.Writer) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var listen func() error
	switch name {
	case nameBare:
		srv := &fasthttp.Server{Handler: bare, NoDefaultDate: true, NoDefaultContentType: true}
		listen = func() error { return srv.Serve(ln) }
	case nameFake:
		settings := fakeapi.DefaultSettings()
		settings.Text.PerSecond, settings.Latency = 1_000_000, fakeapi.Latency{} // nothing is refused or waits
		api, err := fakeapi.New(fakeapi.Config{Settings: &settings})
		if err != nil {
			return err
		}
		listen = func() error { return api.Serve(ctx, ln) }
	default:
		return fmt.Errorf("server %.20q is neither %s nor %s", name, nameBare, nameFake)
	}
	ended := make(chan error, 1)
	go func() { ended <- listen() }()
	fmt.Fprintln(stdout, ln.Addr())
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		used, err := cpu()
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, used)
	}
	cancel()
	_ = ln.Close() // fakeapi has closed it
	if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return lines.Err()
}

// bare parses the body and answers as much as fakeapi does, and no more.
func bare(ctx *fasthttp.RequestCtx) {
	var body struct {
		Recipient struct{ ID string }
		Message   struct{ Text, Metadata string }
	}
	if json.Unmarshal(ctx.PostBody(), &body) != nil {
		ctx.SetStatusCode(fasthttp.StatusBadRequest)
		return
	}
	ctx.SetContentType("application/json; charset=UTF-8")
	ctx.SetBodyString(`{"recipient_id":"` + body.Recipient.ID + `","message_id":"m_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`)
}

// cpu returns the CPU time of this process in µs.
func cpu() (int64, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	return (u.Utime.Nano() + u.Stime.Nano()) / 1000, nil
}
