package rabbittest

import (
	"net/url"
	"testing"

	"chatclub/tools/wire"
)

// Wire opens a way to URL's broker, whose connections can be made to fail, and returns
// it with the broker's URL by it.
func Wire(t testing.TB) (w *wire.Wire, amqpURL string) {
	t.Helper()
	u, err := url.Parse(URL(t))
	if err != nil {
		t.Fatal("AMQP_URL is not a URL")
	}
	if w, err = wire.New("127.0.0.1:0", "tcp", u.Host); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	u.Host = w.Addr
	return w, u.String()
}
