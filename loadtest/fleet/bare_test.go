package fleet

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// request is what differs between two calls.
type request struct{ method, path, authorization, contentType, agent, body string }

// The loop posts what the sender does: header and body are the same.
func TestBareLoopPostsWhatTheSenderDoes(t *testing.T) {
	t.Parallel()
	var got []request
	record := roundTrip(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		got = append(got, request{
			r.Method, r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), r.Header.Get("User-Agent"), string(body),
		})
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(nil))}, err
	})
	m := message.Outbound{ID: "100/m_1/7", Page: "100", To: "7", Class: message.ClassText, Text: "Hello everybody"}
	s, err := sender.New(sender.Config{
		BaseURL: "http://fakeapi" + graphVersion, Tokens: tokens{}, Transport: record, MaxInFlight: 1, CallTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Send(t.Context(), m)
	body, err := BareBody(m)
	if err != nil {
		t.Fatal(err)
	}
	if taken, err := newBareLoop("http://fakeapi", record, 1).post(t.Context(), m.ID, body); !taken || err != nil {
		t.Fatalf("post = %t, %v, want that it was taken", taken, err)
	}
	if len(got) != 2 || got[0] != got[1] {
		t.Errorf("the sender and the loop make the calls %+v, want two that are the same", got)
	}
}
