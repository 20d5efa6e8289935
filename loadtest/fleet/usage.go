package fleet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// used is what a process has used. nil: not known.
type used struct {
	cpu        *time.Duration
	peak       *int64
	operations *int64
	faults     int64 // of its strategy
}

// The metrics of our RabbitMQ client that count operations of the broker.
const (
	publishedMetric = "chatclub_broker_published_total"
	deliveredMetric = "chatclub_broker_deliveries_total"
	settledMetric   = "chatclub_broker_settled_total"
)

func isOperation(metric string) bool {
	return metric == publishedMetric || metric == deliveredMetric || metric == settledMetric
}

// faultsMetric is where a dispatcher of ours counts its strategy's errors.
const faultsMetric = "loadtest_strategy_errors_total"

// counts reads the operations and the strategy's errors out of the text form of
// the metrics.
func counts(r io.Reader) (operations, faults int64) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		if !isOperation(name) && name != faultsMetric {
			continue
		}
		v, _ := strconv.ParseFloat(strings.TrimSpace(value[strings.LastIndexByte(value, ' ')+1:]), 64) // a line of ours
		if name == faultsMetric {
			faults += int64(v)
		} else {
			operations += int64(v)
		}
	}
	return operations, faults
}

// askTimeout bounds a question to a child.
const askTimeout = 5 * time.Second

// get asks a child's admin server.
func get(ctx context.Context, url string, to *bytes.Buffer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return fmt.Errorf("answer %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	}
	if to != nil {
		_, err = to.ReadFrom(resp.Body)
	}
	return err
}
