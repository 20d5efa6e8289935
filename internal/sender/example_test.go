package sender_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"chatclub/internal/message"
	"chatclub/internal/sender"
)

// Each call has one outcome, whatever the platform answers. What follows from it
// is the caller's decision.
func ExampleSender() {
	answers := []struct {
		status int
		body   string
	}{
		{200, `{"recipient_id":"42","message_id":"m_1"}`},
		{400, `{"error":{"message":"Calls to this api have exceeded the rate limit.","type":"OAuthException","code":613}}`},
		{400, `{"error":{"message":"This person isn't available right now.","type":"OAuthException","code":551}}`},
		{502, `<html>Bad Gateway</html>`},
	}
	calls := 0
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[calls].status)
		_, _ = io.WriteString(w, answers[calls].body)
		calls++
	}))
	defer platform.Close()

	s, err := sender.New(sender.Config{
		BaseURL:     platform.URL + "/v23.0",
		Tokens:      sender.StaticTokens(map[string]string{"1234567890": "a page's token"}),
		MaxInFlight: 8,
		CallTimeout: 10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	out := message.Outbound{
		ID: message.CopyID("1234567890", "m_x", "42", 0), Page: "1234567890", To: "42",
		Class: message.ClassText, Text: "hello",
	}
	for range answers {
		r := s.Send(context.Background(), out)
		fmt.Printf("%s %q\n", r.Outcome, r.CodeString())
	}
	out.Page = "1111111111"
	fmt.Println(s.Send(context.Background(), out).Err)

	// Output:
	// sent ""
	// page_throttled "613"
	// recipient_gone "551"
	// transient "http 502"
	// send: no token for page 1111111111
}
