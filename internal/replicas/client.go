// Package replicas finds the replicas behind addresses, and asks their admin
// ports.
package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxAnswer bounds the answer that is read: of 1,000 pages it has 300 kB.
const maxAnswer = 4 << 20

// Client makes requests of admin ports. HTTP must be set. Safe for concurrent use.
type Client struct {
	HTTP  *http.Client
	Token string // of the admin ports; empty: none
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Code int
	Text string // the program's text about it
}

// Error implements error.
func (e *StatusError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("answers %d: %s", e.Code, e.Text), ": ")
}

// Ask makes a request with body as JSON, and decodes the answer. Both may be nil.
// Any answer other than 2xx is a *StatusError.
func (c Client) Ask(ctx context.Context, method, to string, body, answer any) error {
	req, err := c.request(ctx, method, to, body)
	if err == nil {
		err = c.send(req, answer)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, to, err)
	}
	return nil
}

func (c Client) request(ctx context.Context, method, to string, body any) (*http.Request, error) {
	var sent io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, to, sent)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return req, nil
}

func (c Client) send(req *http.Request, answer any) error {
	resp, err := c.HTTP.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // Ask names the method and the address
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, maxAnswer)
	switch {
	case resp.StatusCode/100 != 2:
		return &StatusError{Code: resp.StatusCode, Text: reason(body)}
	case answer == nil:
		return nil
	}
	return json.NewDecoder(body).Decode(answer)
}

// reason returns an answer's text about an error: the programs answer JSON, and the
// guard of their admin ports a line of text.
func reason(r io.Reader) string {
	b, _ := io.ReadAll(io.LimitReader(r, 500)) // what was read says something
	var j struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(b, &j) == nil {
		return j.Error
	}
	return strings.TrimSpace(string(b))
}
