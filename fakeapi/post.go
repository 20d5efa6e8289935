package fakeapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"chatclub/fakeapi/ledger"
)

// webhook is one body on its way to the system, with the events that it
// carries: their copies are announced already.
type webhook struct {
	list   []happening
	split  bool
	events []*ledger.Event
}

// announce tells the ledger what the happening must produce.
func (w *webhook) announce(a *API, h happening, recipients []string) {
	w.list = append(w.list, h)
	w.events = append(w.events, a.book.Announce(h.page, a.expected(h.page, h.mid, recipients, 1+len(h.pictures))...))
}

// withdraw takes back what was announced.
func (w *webhook) withdraw() {
	for _, e := range w.events {
		e.Withdraw()
	}
}

const (
	firstRetry = 100 * time.Millisecond // "at once a few times"
	maxRetry   = 5 * time.Second
)

// deliver posts w until the system answers 200, with pauses of 0.1 s doubling
// to 5 s, and tells whether it did. When RetryFor or ctx is over what w
// announced is withdrawn: an event that was not taken need not arrive.
func (s *Source) deliver(ctx context.Context, w *webhook) bool {
	s.count.events.Add(int64(len(w.events)))
	for _, e := range w.events {
		e.Posting()
	}
	body := webhookBody(s.api.now(), w.list, w.split)
	giveUp := s.api.now().Add(s.cfg.RetryFor)
	for pause := firstRetry; ; pause = min(2*pause, maxRetry) {
		ok := s.attempt(ctx, body)
		if ok {
			for _, e := range w.events {
				e.Answered()
			}
			return true
		}
		late := s.api.now().Add(pause).After(giveUp)
		if late || s.unsubscribed() || sleep(ctx, pause) != nil {
			w.withdraw()
			s.count.undelivered.Add(int64(len(w.events)))
			return false
		}
		s.count.retries.Add(1)
	}
}

// attempt posts a body once and tells whether the answer was 200.
func (s *Source) attempt(ctx context.Context, body []byte) bool {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return false // NewSource has parsed the address
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "facebookexternalua")
	sha2, legacy := sign(s.cfg.Secret, body)
	req.Header.Set("X-Hub-Signature-256", sha2)
	req.Header.Set("X-Hub-Signature", legacy)
	s.count.posts.Add(1)
	begin := s.api.now()
	resp, err := s.client.Do(req)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			s.note(false)
		}
		return false
	}
	// Read to the end, so that the connection is used again.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	closeErr := resp.Body.Close()
	s.count.answers.add(s.api.now().Sub(begin))
	ok := resp.StatusCode == http.StatusOK && err == nil && closeErr == nil
	s.note(ok)
	return ok
}
