package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

// bare begins the loop. What it leaves out is what the dispatcher does beyond
// it: to decode the message and encode the body, to know limits, failures, the
// time to live and the recipients' order, to settle by the answer's error code,
// to count anything, and to reconnect.
func (s *sideConfig) bare(ctx context.Context) (hello string, wait func() error, err error) {
	conn, err := amqp.Dial(os.Getenv(urlVariable))
	if err != nil {
		return "", nil, fmt.Errorf("dial the broker: %w", err)
	}
	ch, err := conn.Channel()
	if err != nil {
		return "", nil, err
	}
	if err := ch.Qos(s.Prefetch, 0, false); err != nil {
		return "", nil, err
	}
	in, err := ch.ConsumeWithContext(ctx, s.topology().Outbound(), "", false, false, false, false, nil)
	if err != nil {
		return "", nil, err
	}
	client := &http.Client{Transport: transport(s.Workers), Timeout: callTimeout}
	var posts atomic.Int64
	s.requests = posts.Load
	workers, ctx := errgroup.WithContext(ctx)
	for range s.Workers {
		workers.Go(func() error { return s.work(ctx, client, in, &posts) })
	}
	return "ready", func() error {
		err := workers.Wait()
		client.CloseIdleConnections()
		return errors.Join(err, conn.Close())
	}, nil
}

// work sends one message after another.
func (s *sideConfig) work(ctx context.Context, client *http.Client, in <-chan amqp.Delivery, posts *atomic.Int64) error {
	for {
		select {
		case d, ok := <-in:
			if !ok {
				return nil // ctx ended
			}
			posts.Add(1)
			if err := s.post(ctx, client, &d); err != nil {
				return err
			}
			if err := d.Ack(false); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *sideConfig) post(ctx context.Context, client *http.Client, d *amqp.Delivery) (err error) {
	page, _, _ := strings.Cut(d.MessageId, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Graph+graphVersion+"/"+page+"/messages", bytes.NewReader(d.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token(page))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "chatclub")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil { // otherwise the connection would be lost
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the call was answered %s", resp.Status)
	}
	return nil
}

// transport has the settings of package sender's own.
func transport(workers int) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: callTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    callTimeout,
		Protocols:              &protocols,
		DisableCompression:     true,
		MaxIdleConns:           workers,
		MaxIdleConnsPerHost:    workers,
		MaxConnsPerHost:        workers,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}
