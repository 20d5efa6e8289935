package sender

import (
	"encoding/json"
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

// TestHostileAnswers: whatever the platform quotes, no text of the message is in the error,
// which goes into the log and into a header. What it says itself stays.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const text = "my PRIVATE medical result\nis Bad, and can't be told"
	payload := message.Payload(`{"text":"my PRIVATE medical result","quick_replies":[{"content_type":"text","title":"PRIVTITLE","payload":"PRIVPAYLOAD"}]}`)
	messages := map[string]message.Outbound{
		"text":    {ID: "i", Page: "1", To: "2", Text: text, Replies: []message.QuickReply{{Title: "PRIVTITLE", Payload: "PRIVPAYLOAD"}}},
		"payload": {ID: "i", Page: "1", To: "2", Own: message.Own{Payload: payload}},
		"file":    {ID: "i", Page: "1", To: "2", Attachment: &message.Attachment{Type: "image", URL: "https://private.example/PRIVATE"}},
	}
	for answer, want := range map[string]string{ // want is what a text's error ends with
		`(#100) Bad {"text": "my PRIVATE medical result", "quick_replies": [{"title": "PRIVTITLE"`: "(#100) Bad …",
		`(#100) Bad [{'text': 'my PRIVATE`:                    "(#100) Bad …",
		`(#100) You can't say 'my PRIVATE medi…'`:             "(#100) You can't say …",
		`(#100) You can’t say “my PRIVATE”`:                   "(#100) You can’t say …",
		`(#100) It's not for you're text'my PRIVATE`:          "(#100) It's not for you're text …",
		`(#100) No «PRIVATE» here`:                            "(#100) No …",
		"(#100) No `PRIVATE` here":                            "(#100) No …",
		`(#100) Not: my private MEDICAL result.`:              "(#100) Not: …",
		`(#100) my PRIVATE medical`:                           "(#100) …",
		`(#100) my PRIVATE medical result is bad! And so on`:  "(#100) … … so on",
		`(#100) The title PRIVTITLE is bad`:                   "(#100) The title … is bad",
		`(#100) PRIVPAYLOAD`:                                  "(#100) …",
		`(#100) cannot fetch https://private.example/PRIVATE`: "(#100) cannot fetch …",
	} {
		for kind, o := range messages {
			for _, body := range []map[string]any{
				{"message": answer, "code": 100, "type": "OAuthException", "fbtrace_id": "A_b-1"},
				{"message": "(#100) No.", "code": 100, "type": "my PRIVATE medical result", "fbtrace_id": "my PRIVATE medical result"},
			} {
				raw, err := json.Marshal(map[string]any{"error": body})
				if err != nil {
					t.Fatal(err)
				}
				s, err := New(Config{
					BaseURL: "http://graph", Tokens: StaticTokens(map[string]string{"1": "tok"}), MaxInFlight: 1, CallTimeout: time.Second,
					Transport: answering(raw),
				})
				if err != nil {
					t.Fatal(err)
				}
				got := s.Send(t.Context(), o).Err.Error()
				if kind == "file" && !strings.Contains(answer, "fetch") {
					continue // no text was sent
				}
				for _, private := range []string{"PRIV", "private", "medic", "told"} {
					if strings.Contains(strings.ReplaceAll(got, "private.example", ""), private) {
						t.Errorf("%s: answer %s = error %s, want no text of the message", kind, raw, got)
						break
					}
				}
				if kind == "text" && body["type"] == "OAuthException" && !strings.HasSuffix(got, `"OAuthException", trace "A_b-1"): `+want) {
					t.Errorf("answer %s = error %s, want it to end with %s", answer, got, want)
				}
			}
		}
	}
	// What sends nothing is quoted nowhere, and the platform's own quotes stay.
	s, err := New(Config{
		BaseURL: "http://graph", Tokens: StaticTokens(map[string]string{"1": "tok"}), MaxInFlight: 1, CallTimeout: time.Second,
		Transport: answering(`{"error":{"message":"Object with ID '1' does not exist","code":100}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Send(t.Context(), message.Outbound{ID: "i", Page: "1", To: "2", Own: message.Own{SenderAction: "typing_on"}}); !strings.HasSuffix(r.Err.Error(), "Object with ID '1' does not exist") {
		t.Errorf("Send() of an action = %v, want all words", r.Err)
	}
}
