package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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

func (k *Console) get(ctx context.Context, admin string) (*dispatch.Status, error) {
	resp, err := k.do(ctx, http.MethodGet, admin+"/pages")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask a dispatcher: GET %s/pages answers %s", admin, resp.Status)
	}
	var s dispatch.Status
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&s); err != nil {
		return nil, fmt.Errorf("ask a dispatcher: GET %s/pages: %w", admin, err)
	}
	return &s, nil
}

// do makes a request of an admin port.
func (k *Console) do(ctx context.Context, method, to string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, http.NoBody)
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
	return resp, nil
}

// resume is the action of an operator: a suspended page is sent to again.
const resume = "resume"

// resumePage resumes a page on every replica that has it suspended.
func (k *Console) resumePage(ctx context.Context, page string) error {
	var errs []error
	resumed := false
	for _, r := range k.cfg.Replicas(ctx) {
		resp, err := k.do(ctx, http.MethodPost, r.URL+"/pages/"+url.PathEscape(page)+"/resume")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_ = resp.Body.Close() // nothing of it is read
		switch resp.StatusCode {
		case http.StatusOK, http.StatusNoContent:
			resumed = true
		case http.StatusNotFound: // it is not suspended there
		default:
			errs = append(errs, fmt.Errorf("%s answers %s", r.Name, resp.Status))
		}
	}
	if err := errors.Join(errs...); err != nil || resumed {
		return err
	}
	return errors.New("no dispatcher has this page suspended")
}
