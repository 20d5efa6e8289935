package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/internal/queue"
)

// recipients is how many people of each page are written to in turn: more than
// a page has messages in hand, so that none waits for another.
const recipients = 100

// text is what they read.
const text = "Hello everybody, has anyone seen the new film at the Odeon?"

// crowd makes n messages, spread over the pages, with ids that were never used.
func (b *bench) crowd(queueName, side string, n int) []queue.Message {
	msgs := make([]queue.Message, n)
	now := time.Now().UnixMilli()
	for i := range msgs {
		page, round := b.sent%b.pages, b.sent/b.pages
		o := message.Outbound{
			Page: fakeapi.PageID(page), To: strconv.Itoa(1_000_000_000_000_000_000 + page*1000 + round%recipients),
			Class: message.ClassText, Text: text, Time: now,
		}
		o.ID = message.CopyID(o.Page, fmt.Sprintf("m_%027d", b.sent), o.To, 0)
		msgs[i] = queue.Message{Queue: queueName, ID: o.ID, Body: bodyFor(side, o)}
		b.sent++
	}
	return msgs
}

// bodyFor is what lies on the queue: for the loop what it has to post.
func bodyFor(side string, o message.Outbound) []byte {
	if side == nameBare {
		return fmt.Appendf(nil, `{"recipient":{"id":"%s"},"messaging_type":"UPDATE","message":{"text":"%s","metadata":"%s"}}`, o.To, o.Text, o.ID)
	}
	b, err := o.Encode()
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return b
}

// judge is the fake platform as this program sees it.
type judge struct{ url string }

// expect announces the messages to the ledger.
func (j *judge) expect(ctx context.Context, msgs []queue.Message) error {
	type announcement struct {
		Page string   `json:"page"`
		IDs  []string `json:"ids"`
	}
	pages := make(map[string]*announcement)
	for _, m := range msgs {
		page, _, _ := strings.Cut(m.ID, "/")
		if pages[page] == nil {
			pages[page] = &announcement{Page: page}
		}
		pages[page].IDs = append(pages[page].IDs, m.ID)
	}
	for _, a := range pages {
		if err := j.ask(ctx, http.MethodPost, "/ledger/expect", a, nil); err != nil {
			return err
		}
	}
	return nil
}

// patience bounds the time without any accepted message.
const patience = 20 * time.Second

// await waits until every message was accepted, want in all since the start,
// each once.
func (j *judge) await(ctx context.Context, want int) error {
	var last int
	progress := time.Now()
	for {
		var ledger struct {
			Totals struct{ Accepted, Refused, Errors, Lost, Duplicated, Unexpected int }
		}
		if err := j.ask(ctx, http.MethodGet, "/ledger?pages=0&seconds=0", nil, &ledger); err != nil {
			return err
		}
		t := ledger.Totals
		switch {
		case t.Duplicated+t.Unexpected+t.Refused+t.Errors > 0 || t.Accepted > want:
			return fmt.Errorf("the ledger shows %+v of %d messages", t, want)
		case t.Accepted == want && t.Lost == 0:
			return nil
		case t.Accepted > last:
			last, progress = t.Accepted, time.Now()
		case time.Since(progress) > patience:
			return fmt.Errorf("nothing was accepted in %s: the ledger shows %+v of %d messages", patience, t, want)
		}
		if !backoff.Sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// ask makes one request of the judge's own interface.
func (j *judge) ask(ctx context.Context, method, path string, in, out any) (err error) {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, j.url+path, &body)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the judge: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the judge answered %s to %s", resp.Status, path)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read the judge's answer: %w", err)
	}
	return nil
}
