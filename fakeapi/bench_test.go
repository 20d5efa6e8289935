package fakeapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/valyala/fasthttp"

	"chatclub/fakeapi"
)

// BenchmarkSend compares an accepted send with a bare handler of the same HTTP
// library that only parses the body and answers as much. Both sides of the
// connection run in this process: cpu-µs/op is the process's CPU time a send,
// client included. Compare runs in pairs.
func BenchmarkSend(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		ln := benchListener(b)
		srv := &fasthttp.Server{Handler: bare, NoDefaultDate: true, NoDefaultContentType: true}
		var serving sync.WaitGroup
		serving.Go(func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				serving.Go(func() { _ = srv.ServeConn(c) })
			}
		})
		benchSends(b, ln.Addr().String())
		ln.Close()
		serving.Wait()
	})
	b.Run("fakeapi", func(b *testing.B) {
		a := newAPI(b, fakeapi.Config{Settings: settings(func(s *fakeapi.Settings) { s.Text.PerSecond = 1_000_000 })})
		ln := benchListener(b)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- a.Serve(ctx, ln) }()
		benchSends(b, ln.Addr().String())
		cancel()
		<-ended
		if got := a.Ledger().Totals(); got.Accepted != int64(b.N) || got.Duplicated != 0 {
			b.Fatalf("accepted = %d, duplicated = %d, want %d and 0", got.Accepted, got.Duplicated, b.N)
		}
	})
}

func bare(ctx *fasthttp.RequestCtx) {
	var body struct {
		Recipient struct{ ID string }
		Message   struct{ Text, Metadata string }
	}
	if json.Unmarshal(ctx.PostBody(), &body) != nil {
		ctx.SetStatusCode(400)
		return
	}
	ctx.SetContentType("application/json; charset=UTF-8")
	ctx.SetBodyString(`{"recipient_id":"` + body.Recipient.ID + `","message_id":"m_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`)
}

func benchListener(b *testing.B) net.Listener {
	b.Helper()
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return ln
}

var benchSeq atomic.Int64

// benchSends sends b.N messages over 16 connections, with as little work of
// the client's own as can be.
func benchSends(b *testing.B, addr string) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		c, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		answer := make([]byte, 4096)
		var out []byte
		for pb.Next() {
			body := text("1000000000000000042", "1/m_AAAAAAAAAAAAAAAAAAAAAAAAAA/"+strconv.FormatInt(benchSeq.Add(1), 10))
			out = fmt.Appendf(out[:0], "POST /v23.0/1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", bearer1, len(body), body)
			if _, err := c.Write(out); err != nil {
				b.Error(err)
				return
			}
			n, err := c.Read(answer) // the whole answer: one write of a few hundred bytes
			if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200")) || !bytes.HasSuffix(answer[:n], []byte(`"}`)) {
				b.Errorf("send = %v %s, want 200", err, answer[:n])
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric((cpu(b)-before)/float64(b.N), "cpu-µs/op")
}

// cpu is the CPU time of this process in µs.
func cpu(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

// BenchmarkDo is the judge alone, without HTTP.
func BenchmarkDo(b *testing.B) {
	a := newAPI(b, fakeapi.Config{Settings: settings(func(s *fakeapi.Settings) { s.Text.PerSecond = 1_000_000 })})
	var resp fakeapi.Response
	req := fakeapi.Request{
		Method: "POST", Path: []byte("/v23.0/1/messages"), Authorization: []byte(bearer1),
		ContentType: []byte("application/json"),
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		req.Body = []byte(text("1000000000000000042", fmt.Sprintf("1/m_AAAAAAAAAAAAAAAAAAAAAAAAAA/%d", i)))
		a.Do(&req, &resp)
		if resp.Status != 200 {
			b.Fatalf("Do = %s, want 200", resp.Body)
		}
	}
}
