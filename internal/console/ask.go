package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"chatclub/internal/dispatch"
)

// answer is what a replica said of itself.
type answer struct {
	Replica
	status *dispatch.Status // nil: it was not asked, or did not answer
	err    error
}

// maxAnswer bounds the answer that is read: of 1,000 pages it has 300 kB.
const maxAnswer = 4 << 20

// ask asks all replicas at once.
func (k *Console) ask(ctx context.Context) []answer {
	replicas := k.cfg.Replicas(ctx)
	answers := make([]answer, len(replicas))
	var asking sync.WaitGroup
	for i, r := range replicas {
		answers[i].Replica = r
		if r.URL == "" {
			continue
		}
		asking.Go(func() { answers[i].status, answers[i].err = k.get(ctx, r.URL) })
	}
	asking.Wait()
	return answers
}

func (k *Console) get(ctx context.Context, url string) (*dispatch.Status, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/pages", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask a dispatcher: %w", err)
	}
	if k.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+k.cfg.Token)
	}
	resp, err := k.cfg.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask a dispatcher: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask a dispatcher: GET %s/pages answers %s", url, resp.Status)
	}
	var s dispatch.Status
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&s); err != nil {
		return nil, fmt.Errorf("ask a dispatcher: GET %s/pages: %w", url, err)
	}
	return &s, nil
}
