package sender

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"chatclub/internal/message"
)

// The platform's message is kept without what may be a token, an address, or the text
// that was sent.
func TestSentence(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxWord+1)
	for text, want := range map[string]string{
		"(#100) Length of param message[text] must be less than or equal to 2000": "(#100) Length of param message[text] must be less than or equal to 2000",
		"Malformed access token EAAG":                    "",
		"Cannot fetch https://people.example/a.jpg now.": "Cannot fetch … now.",
		"Unknown " + long + " here":                      "Unknown … here",
		"two\nlines \x00 of it":                          "two lines \x00 of it",
		strings.Repeat("äbc ", 100):                      strings.Repeat("äbc ", 50) + "…",
		"":                                               "",
	} {
		if got := sentence(text); got != want {
			t.Errorf("sentence(%q) = %q, want %q", text, got, want)
		}
	}
}

// answering answers every call with a body.
type answering string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 400, Header: make(http.Header), Request: r, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

func TestErrorHidesWhatWasSent(t *testing.T) {
	t.Parallel()
	s, err := New(Config{
		BaseURL: "http://graph", Tokens: StaticTokens(map[string]string{"1": "tok"}), MaxInFlight: 1, CallTimeout: time.Second,
		Transport: answering(`{"error":{"message":"(#100) my dear  friend, tok is not a dance, bye bye","code":100}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := s.Send(t.Context(), message.Outbound{ID: "i", Page: "1", To: "2", Text: "my dear friend\nbye  bye\nis"})
	if _, ok := errors.AsType[*apiError](r.Err); !ok || !strings.HasSuffix(r.Err.Error(), ": (#100) …, … is not a dance, …") {
		t.Errorf("Send().Err = %v, want the sentence without the token and the text", r.Err)
	}
}
