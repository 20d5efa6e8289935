package flow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chatclub/fakeapi"
)

// health is how a replica's way to the platform is.
type health int32

const (
	healthy health = iota
	slow           // every answer takes ten times as long
	hung           // no call gets through, and none is answered
)

// slowdown is how many times longer a slow replica's answers take.
const slowdown = 10

// platform is the judge and the book of what it answered.
type platform struct {
	api  *fakeapi.API
	book *book
	odd  atomic.Pointer[string] // the first answer that is neither an acceptance nor a 613
}

func newPlatform(t *testing.T, seed uint64, s fakeapi.Settings, b *book) *platform {
	t.Helper()
	api, err := fakeapi.New(fakeapi.Config{Now: time.Now, Seed: seed, Settings: &s, Seconds: 4000})
	if err != nil {
		t.Fatal(err)
	}
	api.Observe(func(a fakeapi.Acceptance) { b.accept(a.ID) })
	return &platform{api: api, book: b}
}

// way is one replica's http.RoundTripper: the judge called in process. The
// judge decides when the call arrives, and the answer takes its latency.
type way struct {
	platform *platform
	there    func() time.Duration // how long a call takes to the judge; nil: no time
	health   atomic.Int32
	inFlight atomic.Int32 // calls that the judge has decided and not answered
}

var (
	code613      = []byte(`"code":613,`)
	jsonHeader   = http.Header{"Content-Type": {"application/json; charset=UTF-8"}}
	errWayFailed = errors.New("the judge lost the connection")
)

// RoundTrip implements http.RoundTripper.
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if health(w.health.Load()) == hung {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if w.there != nil {
		if err := sleep(r.Context(), w.there()); err != nil {
			return nil, err
		}
	}
	w.inFlight.Add(1)
	defer w.inFlight.Add(-1)
	var resp fakeapi.Response
	w.platform.api.Do(&fakeapi.Request{
		Method: r.Method, Path: []byte(r.URL.Path), Authorization: []byte(r.Header.Get("Authorization")),
		ContentType: []byte(r.Header.Get("Content-Type")), Body: body,
	}, &resp)
	delay := resp.Delay
	if health(w.health.Load()) == slow {
		delay *= slowdown
	}
	if resp.Status == http.StatusOK {
		w.platform.book.answer(metadata(body), delay)
	} else {
		w.platform.refused(r.URL.Path, resp.Body)
	}
	if err := sleep(r.Context(), delay); err != nil {
		return nil, err
	}
	if resp.Cut {
		return nil, errWayFailed
	}
	return &http.Response{
		StatusCode: resp.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: jsonHeader, ContentLength: int64(len(resp.Body)), Body: io.NopCloser(bytes.NewReader(resp.Body)),
	}, nil
}

// metadata is the message's id in a call's body.
func metadata(body []byte) string {
	_, rest, _ := bytes.Cut(body, []byte(`"metadata":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id)
}

// refused books an answer that is no acceptance.
func (p *platform) refused(path string, body []byte) {
	parts := strings.Split(path, "/")
	page, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil || !bytes.Contains(body, code613) {
		s := fmt.Sprintf("%s answered %s", path, body)
		p.odd.CompareAndSwap(nil, &s)
		return
	}
	p.book.refuse(page)
}

// foreign is another app on the same page, which sends rate messages a second,
// evenly but for a jitter, until ctx ends.
func (p *platform) foreign(ctx context.Context, rng *rand.Rand, page int, rate float64) {
	gap := time.Duration(float64(time.Second) / rate)
	var resp fakeapi.Response
	for n := 0; sleep(ctx, time.Duration((0.5+rng.Float64())*float64(gap))) == nil; n++ {
		p.api.Do(&fakeapi.Request{
			Method: http.MethodPost, Path: fmt.Appendf(nil, "/v23.0/%d/messages", page),
			Authorization: fmt.Appendf(nil, "Bearer token-%d", page), ContentType: []byte("application/json"),
			Body: fmt.Appendf(nil, `{"recipient":{"id":"9%08d"},"messaging_type":"UPDATE","message":{"text":"x","metadata":"foreign-%d"}}`, n, n),
		}, &resp)
		if resp.Status == http.StatusOK {
			p.book.foreign(page)
		}
	}
}
