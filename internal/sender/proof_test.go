package sender

import (
	"context"
	"testing"

	"chatclub/fakeapi"
	"chatclub/internal/message"
)

// TestAppSecret checks that an app that requires a proof takes calls with the right
// one only. Without it the page is stopped, and no message is at fault.
func TestAppSecret(t *testing.T) {
	t.Parallel()
	settings := fakeapi.DefaultSettings()
	settings.Latency, settings.RequireProof = fakeapi.Latency{}, true
	api, err := fakeapi.New(fakeapi.Config{Settings: &settings, AppSecret: "right"})
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]Outcome{"right": Sent, "wrong": PageStopped, "": PageStopped} {
		s := setup(t, func(c *Config) {
			c.Tokens = StaticTokens(map[string]string{"1": "token-1"})
			c.Transport, c.AppSecret = api.Transport(), secret
		})
		r := s.Send(context.Background(), message.Outbound{ID: "1/m/42", Page: "1", To: "42", Class: message.ClassText, Text: "x"})
		if r.Outcome != want {
			t.Errorf("Send() with the secret %q = %v %v, want %v", secret, r.Outcome, r.Err, want)
		}
	}
}

// TestProof checks the proof against one that openssl made:
// printf token-1 | openssl dgst -sha256 -hmac right.
func TestProof(t *testing.T) {
	t.Parallel()
	const want = "02f3b1bda4d60b6687c47f64ebd5cb4132b7bde68207b5483fbeca89bb6ce1e5"
	if got := proof([]byte("right"), "token-1"); got != want {
		t.Errorf("proof() = %s, want %s", got, want)
	}
}
