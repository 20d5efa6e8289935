package fakeapitest

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
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/fakeapi/webhook"
)

// Secret signs the bot's webhooks.
const Secret = "bot-test-secret"

// Bot is a small system under test: it relays a user's messages to the others of
// the room. Its errors can be switched on. NewBot makes one.
type Bot struct {
	Capacity int                // of a room
	Lose     func(n int64) bool // the n-th copy is not sent
	Twice    func(n int64) bool // the n-th copy is sent twice
	Fail     func(n int64) bool // the n-th webhook is answered 503 and not taken

	BotCounts

	send   http.RoundTripper
	copies atomic.Int64
	work   sync.WaitGroup

	mu    sync.Mutex
	state botState
}

// BotCounts counts the requests that a bot received and the mistakes in them.
type BotCounts struct{ Webhooks, Echoes, BadSignature, Repeated, Pictures atomic.Int64 }

// botState is the bot's memory of its users.
type botState struct {
	seen  map[string]bool
	taps  []string            // buttons and quick replies, as "postback TITLE PAYLOAD"
	rooms map[string][]string // page → users in order of joining
	gone  map[string]bool     // users who were rejected: they get nothing more, and may not write
}

// NewBot makes a bot that sends to a platform.
func NewBot(p *Platform, capacity int) *Bot {
	return &Bot{Capacity: capacity, send: p.Transport(), state: botState{
		seen: make(map[string]bool), rooms: make(map[string][]string), gone: make(map[string]bool),
	}}
}

// Webhook is the configuration of the bot's webhook, which has no socket.
func (b *Bot) Webhook() webhook.Config {
	return webhook.Config{URL: "http://bot.test/webhook", Secret: Secret, Transport: b}
}

// Wait waits until every copy is sent.
func (b *Bot) Wait() { b.work.Wait() }

// Taps returns the buttons and quick replies that were tapped since the last
// call, as "postback TITLE PAYLOAD" and "message TITLE PAYLOAD".
func (b *Bot) Taps() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.state.taps
	b.state.taps = nil
	return list
}

// RoundTrip makes the bot a webhook without a socket.
func (b *Bot) RoundTrip(r *http.Request) (*http.Response, error) {
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

func (b *Bot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	mac := hmac.New(sha256.New, []byte(Secret))
	mac.Write(raw)
	if r.Header.Get("X-Hub-Signature-256") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		b.BadSignature.Add(1)
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if n := b.Webhooks.Add(1); b.Fail != nil && b.Fail(n) {
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
	ctx := context.WithoutCancel(r.Context()) // copies are sent after the answer
	for _, entry := range body.Entry {
		for _, e := range entry.Messaging {
			b.handle(ctx, entry.ID, e)
		}
	}
}

func (b *Bot) handle(ctx context.Context, page string, e botEvent) {
	switch {
	case e.Message != nil && e.Message.IsEcho:
		b.Echoes.Add(1)
	case e.Postback != nil && e.Postback.Payload != webhook.GetStarted:
		b.tap("postback", e.Postback.Title, e.Postback.Payload)
	case e.Message != nil && e.Message.QuickReply.Payload != "":
		b.tap("message", e.Message.Text, e.Message.QuickReply.Payload)
	case e.Postback != nil:
		b.join(page, e.Sender.ID)
		b.copy(ctx, page, e.Postback.MID, []string{e.Sender.ID}, part{"text": "welcome"})
	case e.Message != nil:
		if b.markSeen(page + e.Message.MID) {
			b.Repeated.Add(1)
			return
		}
		text := e.Message.Text
		if text == "" {
			text = "sent a picture"
		}
		parts := []part{{"text": text}}
		for _, a := range e.Message.Attachments {
			b.Pictures.Add(1)
			parts = append(parts, part{"attachment": map[string]any{"type": a.Type, "payload": map[string]string{"url": a.Payload.URL}}})
		}
		b.copy(ctx, page, e.Message.MID, b.others(page, e.Sender.ID), parts...)
	}
}

// markSeen marks an event as seen and reports whether it was seen before.
func (b *Bot) markSeen(id string) (again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	again = b.state.seen[id]
	b.state.seen[id] = true
	return again
}

func (b *Bot) tap(what, title, payload string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.taps = append(b.state.taps, what+" "+title+" "+payload)
}

func (b *Bot) join(page, user string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.rooms[page] = append(b.state.rooms[page], user)
}

// others returns the others in the user's rooms who can be sent to.
func (b *Bot) others(page, user string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	members := b.state.rooms[page]
	for i, m := range members {
		if m != user {
			continue
		}
		first := i - i%b.Capacity
		for _, o := range members[first:min(first+b.Capacity, len(members))] {
			if o != user && !b.state.gone[o] && !b.state.gone[user] {
				list = append(list, o)
			}
		}
	}
	return list
}

// part is one message of a copy: a text, or a picture.
type part map[string]any

// copy sends every part to every one of to: the first under the copy's id, the
// n-th after it under that id and /n.
func (b *Bot) copy(ctx context.Context, page, mid string, to []string, parts ...part) {
	for _, user := range to {
		for i, p := range parts {
			p := maps.Clone(p)
			p["metadata"] = page + "/" + mid + "/" + user
			if i > 0 {
				p["metadata"] = fmt.Sprintf("%s/%d", p["metadata"], i)
			}
			b.sendPart(ctx, page, user, p)
		}
	}
}

// sendPart sends a part, with the errors that are switched on.
func (b *Bot) sendPart(ctx context.Context, page, user string, p part) {
	n := b.copies.Add(1)
	if b.Lose != nil && b.Lose(n) {
		return
	}
	times := 1
	if b.Twice != nil && b.Twice(n) {
		times = 2
	}
	b.work.Go(func() {
		for range times {
			b.relay(ctx, page, user, p)
		}
	})
}

// relay tries until the platform takes the message, at most for a minute.
func (b *Bot) relay(ctx context.Context, page, to string, p part) {
	for range 600 {
		code, err := b.call(ctx, page, to, p)
		switch {
		case err != nil || code == 613 || code == 2:
			time.Sleep(100 * time.Millisecond)
			continue
		case slices.Contains([]int{551, 10, 100}, code):
			b.mu.Lock()
			b.state.gone[to] = true
			b.mu.Unlock()
		}
		return
	}
}

// call makes one Send API call and returns the code of the error answer, 0
// where there is none.
func (b *Bot) call(ctx context.Context, page, to string, p part) (code int, err error) {
	body, err := json.Marshal(map[string]any{
		"recipient": map[string]string{"id": to}, "messaging_type": "UPDATE", "message": p,
	})
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://graph.test/v23.0/"+page+"/messages", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer token-"+page)
	r.Header.Set("Content-Type", "application/json")
	resp, err := b.send.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it is in memory
	if err != nil {
		return 0, err
	}
	var e struct{ Error struct{ Code int } }
	_ = json.Unmarshal(answer, &e) // an answer that is no JSON counts as taken
	return e.Error.Code, nil
}
