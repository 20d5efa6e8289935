package users

import (
	"context"
	"sync"
	"time"

	"chatclub/fakeapi"
	"chatclub/fakeapi/webhook"
	"chatclub/fakeapi/wire"
)

const (
	// receiptBuffer holds two seconds of a platform at 5,000 sends/s. Beyond it
	// receipts are dropped, which is allowed because they are not judged.
	receiptBuffer = 10_000
	// receiptBatch keeps a webhook of echoes below 64 KiB.
	receiptBatch = 50
	receiptEvery = 200 * time.Millisecond
)

// postReceipts posts an echo and a delivery event for every accepted message, and
// a read event for each batch of a page. Instagram has no delivery events. It ends with ctx or when stop is called.
// Its goroutine is counted in running.
func (u *Users) postReceipts(ctx context.Context, running *sync.WaitGroup) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	accepted := make(chan fakeapi.Acceptance, receiptBuffer)
	forget := u.api.Observe(func(x fakeapi.Acceptance) {
		if x.Action != "" {
			return
		}
		select {
		case accepted <- x:
		default:
		}
	})
	running.Go(func() {
		for wire.Sleep(receiptEvery, ctx.Done()) {
			u.postBatches(ctx, accepted)
		}
	})
	return func() { forget(); cancel() }
}

// postBatches posts the receipts that have gathered.
func (u *Users) postBatches(ctx context.Context, accepted <-chan fakeapi.Acceptance) {
	byPage := make(map[string][]fakeapi.Acceptance)
	for range len(accepted) {
		x := <-accepted
		byPage[x.Page] = append(byPage[x.Page], x)
		if len(byPage[x.Page]) == receiptBatch {
			u.postBatch(ctx, byPage[x.Page])
			delete(byPage, x.Page)
		}
	}
	for _, list := range byPage {
		u.postBatch(ctx, list)
	}
}

// postBatch posts the receipts of one page.
func (u *Users) postBatch(ctx context.Context, list []fakeapi.Acceptance) {
	now := u.api.Now()
	post := &webhook.Post{Events: make([]webhook.Event, 0, 2*len(list)+1), Instagram: u.api.IsInstagram(list[0].Page)}
	for i := range list {
		x := &list[i]
		echo := &webhook.Echo{MID: x.MID, Metadata: x.ID, Text: x.Text, Type: x.Type, URL: x.URL}
		post.Events = append(post.Events, webhook.Event{Page: x.Page, User: x.Recipient, At: x.At, Echo: echo})
		if !post.Instagram {
			post.Events = append(post.Events, webhook.Event{Page: x.Page, User: x.Recipient, At: now, Delivered: []string{x.MID}})
		}
	}
	last := list[len(list)-1]
	post.Events = append(post.Events, webhook.Event{Page: last.Page, User: last.Recipient, At: now, MID: last.MID, Read: true})
	if u.hook.Try(ctx, post) {
		u.counts.receipts.Add(int64(len(post.Events)))
	}
}
