package fakeapi_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/fakeapi"
)

const secret = "bot-test-secret"

// bot is a small system under test: it relays what a user writes to the others
// of the room. Its faults can be switched on.
type bot struct {
	capacity int
	send     http.RoundTripper

	lose  func(n int64) bool // the n-th copy is not sent
	twice func(n int64) bool // the n-th copy is sent twice
	fail  func(n int64) bool // the n-th webhook is answered 503 and not taken

	copies, webhooks, echoes, badSignature, repeated, pictures atomic.Int64

	work sync.WaitGroup

	mu    sync.Mutex
	seen  map[string]bool
	taps  []string            // buttons and quick replies, as "postback TITLE PAYLOAD"
	rooms map[string][]string // page → users in order of joining
	gone  map[string]bool     // users who were rejected: they get nothing more, and may not write
}

func (b *bot) wait() { b.work.Wait() }

// RoundTrip makes the bot a webhook without a socket.
func (b *bot) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w.Result(), nil
}

type botEvent struct {
	Sender    struct{ ID string }
	Recipient struct{ ID string }
	Message   *struct {
		MID, Text   string
		IsEcho      bool                     `json:"is_echo"`
		QuickReply  struct{ Payload string } `json:"quick_reply"`
		Attachments []struct {
			Type    string
			Payload struct{ URL string }
		}
	}
	Postback *struct{ MID, Title, Payload string }
}

func (b *bot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(raw)
	if r.Header.Get("X-Hub-Signature-256") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		b.badSignature.Add(1)
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if n := b.webhooks.Add(1); b.fail != nil && b.fail(n) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var body struct {
		Entry []struct {
			ID        string
			Messaging []botEvent
		}
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, entry := range body.Entry {
		for _, e := range entry.Messaging {
			b.take(entry.ID, e)
		}
	}
}

func (b *bot) take(page string, e botEvent) {
	switch {
	case e.Message != nil && e.Message.IsEcho:
		b.echoes.Add(1)
	case e.Postback != nil && e.Postback.Payload != "GET_STARTED":
		b.tapped("postback", e.Postback.Title, e.Postback.Payload)
	case e.Message != nil && e.Message.QuickReply.Payload != "":
		b.tapped("message", e.Message.Text, e.Message.QuickReply.Payload)
	case e.Postback != nil:
		b.join(page, e.Sender.ID)
		b.copy(page, e.Postback.MID, []string{e.Sender.ID}, part{"text": "welcome"})
	case e.Message != nil:
		b.mu.Lock()
		again := b.seen[page+e.Message.MID]
		b.seen[page+e.Message.MID] = true
		b.mu.Unlock()
		if again {
			b.repeated.Add(1)
			return
		}
		line := e.Message.Text
		if line == "" {
			line = "sent a picture"
		}
		parts := []part{{"text": line}}
		for _, a := range e.Message.Attachments {
			b.pictures.Add(1)
			parts = append(parts, part{"attachment": map[string]any{"type": a.Type, "payload": map[string]string{"url": a.Payload.URL}}})
		}
		b.copy(page, e.Message.MID, b.others(page, e.Sender.ID), parts...)
	}
}

func (b *bot) tapped(what, title, payload string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taps = append(b.taps, what+" "+title+" "+payload)
}

// takeTaps returns what was tapped since it was called last.
func (b *bot) takeTaps() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.taps
	b.taps = nil
	return list
}

func (b *bot) join(page, user string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rooms[page] = append(b.rooms[page], user)
}

func (b *bot) others(page, user string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	members := b.rooms[page]
	for i, m := range members {
		if m != user {
			continue
		}
		first := i - i%b.capacity
		for _, o := range members[first:min(first+b.capacity, len(members))] {
			if o != user && !b.gone[o] && !b.gone[user] {
				list = append(list, o)
			}
		}
	}
	return list
}

// part is one message of a copy: a line of text, or a picture.
type part map[string]any

// copy sends every part to every one of to: the first under the copy's id, the
// n-th after it under that id and /n.
func (b *bot) copy(page, mid string, to []string, parts ...part) {
	for _, user := range to {
		for i, p := range parts {
			p := maps.Clone(p)
			p["metadata"] = page + "/" + mid + "/" + user
			if i > 0 {
				p["metadata"] = fmt.Sprintf("%s/%d", p["metadata"], i)
			}
			b.one(page, user, p)
		}
	}
}

// one sends a part, with the faults that are switched on.
func (b *bot) one(page, user string, p part) {
	n := b.copies.Add(1)
	if b.lose != nil && b.lose(n) {
		return
	}
	times := 1
	if b.twice != nil && b.twice(n) {
		times = 2
	}
	b.work.Go(func() {
		for range times {
			b.relay(page, user, p)
		}
	})
}

// relay tries until the platform takes the message, at most for a minute.
func (b *bot) relay(page, to string, p part) {
	body, _ := json.Marshal(map[string]any{
		"recipient": map[string]string{"id": to}, "messaging_type": "UPDATE",
		"message": p,
	})
	for range 600 {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://graph.test/v23.0/"+page+"/messages", bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer token-"+page)
		r.Header.Set("Content-Type", "application/json")
		resp, err := b.send.RoundTrip(r)
		if err == nil {
			answer, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			var e struct{ Error struct{ Code int } }
			_ = json.Unmarshal(answer, &e) // what is no JSON counts as taken
			switch e.Error.Code {
			case 613, 2:
			case 551, 10, 100:
				b.mu.Lock()
				b.gone[to] = true
				b.mu.Unlock()
				return
			default:
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func newBot(a *fakeapi.API, capacity int) *bot {
	return &bot{capacity: capacity, send: a.Transport(), seen: make(map[string]bool), rooms: make(map[string][]string), gone: make(map[string]bool)}
}

// line is the ledger in one line.
func line(a *fakeapi.API) string {
	c := a.Ledger().Totals()
	return fmt.Sprintf("events %d expected %d accepted %d lost %d duplicated %d unexpected %d excused %d",
		c.Events, c.Expected, c.Accepted, c.Lost, c.Duplicated, c.Unexpected, c.Excused)
}
