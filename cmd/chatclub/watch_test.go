package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"chatclub/internal/service"
)

// TestWatch: the page shows dispatchers of elsewhere, and changes nothing.
func TestWatch(t *testing.T) {
	t.Parallel()
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"in_flight":3,"partitions":[1],"pages":[{"page":"1234567890","class":"text","limit":300}],"suspended":[]}`)
	}))
	defer replica.Close()
	s, err := service.Load[watchSettings](nil, map[string]string{"HTTP_ADDR": "127.0.0.1:0", "DISPATCHERS": replica.URL}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	out, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, writer, io.Discard) }()
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(strings.TrimSpace(string(line[:n])), "open ")
	var body []byte
	for end := time.Now().Add(time.Minute); !bytes.Contains(body, []byte("…67890")) && time.Now().Before(end); {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/state", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body = make([]byte, 4096)
		n, _ := io.ReadAtLeast(resp.Body, body, 200) // the stream goes on
		body = body[:n]
		resp.Body.Close()
	}
	if !bytes.Contains(body, []byte(`"read_only":true`)) || !bytes.Contains(body, []byte("…67890")) {
		t.Errorf("state = %s, want the dispatcher's page, to be looked at alone", body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("serve() = %v, want nil", err)
	}
}

func TestWatchSettings(t *testing.T) {
	t.Parallel()
	_, err := service.Load[watchSettings](nil, map[string]string{"DISPATCHERS": "http://a:9090,b:9090", "ADMIN_TOKEN": "x y"}, io.Discard)
	for _, name := range []string{"DISPATCHERS", "ADMIN_TOKEN"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Load() = %v, want an error that names %s", err, name)
		}
	}
}
