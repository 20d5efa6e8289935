// Command probe asks an HTTP server whether it is well: it GETs the address
// that is its only argument. It exits with 0 when the answer is 200 within two
// seconds, otherwise with 1 and the reason on standard error. It is the health
// check of the container image, which has no shell and no curl.
//
//	probe http://127.0.0.1:9090/healthz
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// timeout is below the health checks' own of 3 s, so that the reason is seen.
const timeout = 2 * time.Second

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: probe URL")
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := probe(ctx, args[0]); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// probe returns nil when url answers 200.
func probe(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // as far as it can be read
		return fmt.Errorf("probe: %s answers %d: %s", url, resp.StatusCode, reason)
	}
	return nil
}
