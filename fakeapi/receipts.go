package fakeapi

import (
	"context"
	"sync"
	"time"

	"chatclub/fakeapi/webhook"
)

const (
	// receiptBuffer holds two seconds of a platform at 5,000 sends/s. What
	// does not fit is dropped: receipts are not judged.
	receiptBuffer = 10_000
	// receiptBatch keeps a webhook of echoes below 64 KiB.
	receiptBatch = 50
	receiptEvery = 200 * time.Millisecond
)

// receipts posts an echo, a delivery and now and then a read event for what
// the API accepts, in batches per page, until ctx ends or stop is called. Its
// goroutine is counted in posts.
func (s *Source) receipts(ctx context.Context, posts *sync.WaitGroup) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	accepted := make(chan Acceptance, receiptBuffer)
	forget := s.api.Observe(func(x Acceptance) {
		if x.Action != "" {
			return
		}
		select {
		case accepted <- x:
		default:
		}
	})
	posts.Go(func() {
		for sleep(ctx, receiptEvery) == nil {
			s.postReceipts(ctx, accepted)
		}
	})
	return func() { forget(); cancel() }
}

// postReceipts posts what has gathered.
func (s *Source) postReceipts(ctx context.Context, accepted <-chan Acceptance) {
	byPage := make(map[string][]Acceptance)
	for range len(accepted) {
		x := <-accepted
		byPage[x.Page] = append(byPage[x.Page], x)
		if len(byPage[x.Page]) == receiptBatch {
			s.postPage(ctx, byPage[x.Page])
			delete(byPage, x.Page)
		}
	}
	for _, list := range byPage {
		s.postPage(ctx, list)
	}
}

func (s *Source) postPage(ctx context.Context, list []Acceptance) {
	now := s.api.now()
	var events []webhook.Event
	for i := range list {
		x := &list[i]
		events = append(events,
			webhook.Event{Page: x.Page, User: x.Recipient, At: x.At, Echo: &webhook.Echo{MID: x.MID, Metadata: x.ID, Text: x.Text, Type: x.Type, URL: x.URL}},
			webhook.Event{Page: x.Page, User: x.Recipient, At: now, Delivered: []string{x.MID}})
	}
	last := list[len(list)-1]
	events = append(events, webhook.Event{Page: last.Page, User: last.Recipient, At: now, Read: true})
	if s.hook.Try(ctx, &webhook.Post{Events: events}) {
		s.count.receipts.Add(int64(len(events)))
	}
}
