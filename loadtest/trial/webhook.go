package trial

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/message"
	"chatclub/loadtest/judge"
)

// webhook posts signed events as Messenger does, so that they go through the
// whole system. Safe for concurrent use.
type webhook struct {
	url    string
	secret string
	judge  *judge.Judge
	client *http.Client
	run    string

	seq         atomic.Int64
	undelivered atomic.Int64
	posts       sync.WaitGroup

	mu     sync.Mutex
	copies map[string][]string // of each event that was announced, by mid: for what is left on inbound
}

func newWebhook(url, secret, run string, j *judge.Judge) *webhook {
	return &webhook{
		url: url, secret: secret, judge: j, run: run, copies: make(map[string][]string),
		client: &http.Client{
			Timeout:   5 * time.Second, // as Messenger's
			Transport: &http.Transport{MaxIdleConnsPerHost: maxPosts, IdleConnTimeout: 30 * time.Second},
		},
	}
}

// maxPosts are unanswered at a time.
const maxPosts = 512

// webhookLoad makes the members of a stream's rooms write.
type webhookLoad struct {
	*sampler
	hook  *webhook
	slots chan struct{}
}

// do announces what is due and posts it, all at once; it does not wait for
// the answers unless too many are due.
func (s *webhookLoad) do(ctx context.Context, due []time.Time) error {
	for _, at := range due {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil { // select takes either where both are there
			<-s.slots
			return err
		}
		page := s.page()
		room, who := s.writer()
		ev := event{
			page: page, group: group(s.run, s.stream.Group), from: s.user(page, room*s.room+who), due: at, text: "Hello everybody",
			to: s.others(page, room, who),
		}
		mid, err := s.hook.announce(ctx, ev)
		if err != nil {
			<-s.slots
			return err
		}
		s.hook.posts.Go(func() {
			defer func() { <-s.slots }()
			s.hook.deliver(ctx, mid, ev)
		})
	}
	return nil
}

// event is an event on a page.
type event struct {
	page, group, from, text string // text: empty for "Get Started"
	due                     time.Time
	to                      []string
}

// announce enters an event, whatever becomes of ctx: else it could be entered,
// and neither posted nor excused.
func (w *webhook) announce(ctx context.Context, ev event) (mid string, err error) {
	mid = fmt.Sprintf("m_%s.%d", w.run, w.seq.Add(1))
	e := judge.Event{Page: ev.page, Group: ev.group, Due: ev.due, Key: mid}
	ids := make([]string, 0, len(ev.to))
	for _, to := range ev.to {
		id := message.CopyID(ev.page, mid, to, 0)
		ids = append(ids, id)
		e.IDs = append(e.IDs, judge.ID{ID: id, To: to})
	}
	w.mu.Lock()
	w.copies[mid] = ids
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	if err := w.judge.Announce(ctx, e); err != nil {
		return mid, errors.Join(err, excuse(ctx, w.judge, e))
	}
	return mid, nil
}

const (
	postFor    = 30 * time.Second // how long an event is tried
	firstPause = 100 * time.Millisecond
)

// deliver posts an event, at least once, until it is answered 200 or ctx ends;
// one that never is need not arrive.
func (w *webhook) deliver(ctx context.Context, mid string, ev event) {
	body := ev.body(mid)
	end := time.Now().Add(postFor)
	posting := context.WithoutCancel(ctx)
	for pause := firstPause; ; pause *= 2 {
		if w.post(posting, body) == nil {
			_ = w.judge.Answered(posting, mid) // else its order is not judged
			return
		}
		if time.Now().Add(pause).After(end) || !backoff.Sleep(ctx, pause) {
			break
		}
	}
	w.undelivered.Add(1)
	_, _ = w.judge.Excuse(posting, w.ids(mid)...) // else it counts as lost, which is not flattering
}

// ids are the copies of an event.
func (w *webhook) ids(mid string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.copies[mid]
}

func (ev event) body(mid string) []byte {
	what := map[string]any{
		"sender": map[string]string{"id": ev.from}, "recipient": map[string]string{"id": ev.page}, "timestamp": ev.due.UnixMilli(),
	}
	if ev.text == "" {
		what["postback"] = map[string]string{"mid": mid, "payload": "GET_STARTED", "title": "Get Started"}
	} else {
		what["message"] = map[string]string{"mid": mid, "text": ev.text}
	}
	b, err := json.Marshal(map[string]any{"object": "page", "entry": []any{map[string]any{
		"id": ev.page, "time": ev.due.UnixMilli(), "messaging": []any{what},
	}}})
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

func (w *webhook) post(ctx context.Context, body []byte) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(w.secret))
	mac.Write(body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("post event: answer %d", resp.StatusCode)
	}
	return nil
}
