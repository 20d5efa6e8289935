package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Graph makes calls of the Send API. Safe for concurrent use.
type Graph struct {
	base   string
	client http.Client
}

// callTimeout is as long as chatclub's own.
const callTimeout = 10 * time.Second

// NewGraph returns a client of the API at an address with its version.
func NewGraph(base string) *Graph {
	return &Graph{base: base, client: http.Client{Timeout: callTimeout, Transport: &http.Transport{
		MaxIdleConnsPerHost: mostCalls, IdleConnTimeout: 30 * time.Second,
	}}}
}

// ErrThrottled is the answer to a call beyond the page's limit, error 613.
var ErrThrottled = errors.New("error 613: beyond the page's limit")

// throttled is the code of that answer.
const throttled = 613

// mostAnswer bounds what is read of an answer, in bytes.
const mostAnswer = 64 << 10

// Send makes the call of a message. It returns nil when the platform has taken
// the message, ErrThrottled, or another error.
func (g *Graph) Send(ctx context.Context, m Message) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+"/"+m.Page+"/messages", strings.NewReader(m.Body))
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	req.Header.Set("Authorization", "Bearer token-"+m.Page)
	req.Header.Set("Content-Type", "application/json")
	resp, err := g.client.Do(req)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("send: read the answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var answer struct {
		Error struct{ Code int }
	}
	_ = json.Unmarshal(body, &answer) // what is no JSON has no code
	if answer.Error.Code == throttled {
		return ErrThrottled
	}
	return fmt.Errorf("send: answer %d, code %d", resp.StatusCode, answer.Error.Code)
}
