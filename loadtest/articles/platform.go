package articles

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"chatclub/fakeapi"
	"chatclub/internal/excess"
)

// platform is fakeapi on an experiment's clock.
type platform struct {
	*fakeapi.API
	calls int
}

// newPlatform returns one that takes so many calls a second of a page, and answers after a
// time that is written as in fakeapi's settings.
func newPlatform(c *clock, seed uint64, perSecond int, latency string, change func(*fakeapi.Settings)) *platform {
	s := fakeapi.DefaultSettings()
	s.Text.PerSecond = perSecond
	must(s.Latency.UnmarshalText([]byte(latency)))
	change(&s)
	api, err := fakeapi.New(fakeapi.Config{Now: func() time.Time { return c.now }, Seed: seed, Settings: &s, Seconds: 1})
	must(err)
	return &platform{API: api}
}

// call sends a text, each time to another person, and returns what came of it and after
// which time. It is Other when the app is blocked.
func (p *platform) call(page string) (excess.Result, time.Duration) {
	p.calls++
	var resp fakeapi.Response
	p.Do(&fakeapi.Request{
		Method: http.MethodPost, Path: []byte("/" + page + "/messages"),
		Authorization: []byte("Bearer token-" + page), ContentType: []byte("application/json"),
		Body: fmt.Appendf(nil, `{"recipient":{"id":"%d"},"messaging_type":"UPDATE","message":{"text":"hi"}}`, 1_000_000+p.calls),
	}, &resp)
	switch {
	case resp.Status == http.StatusOK:
		return excess.Accepted, resp.Delay
	case bytes.Contains(resp.Body, []byte(`"code":613`)):
		return excess.Refused, resp.Delay
	}
	return excess.Other, resp.Delay
}
