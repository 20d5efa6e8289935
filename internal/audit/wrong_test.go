package audit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWrong: a wrong secret costs a second. An address waits for four answers at a time, and
// has no part in what another address waits for.
func TestWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		wrong := NewWrong(slog.New(slog.NewTextHandler(&log, nil)))
		var mu sync.Mutex
		statuses := make(map[string]int)
		var tries sync.WaitGroup
		try := func(from string) {
			tries.Go(func() {
				began := time.Now()
				status := wrong.Delay(httptest.NewRecorder(), request(t, "POST", "/login", from))
				mu.Lock()
				defer mu.Unlock()
				statuses[fmt.Sprint(from[:strings.LastIndex(from, ":")], " ", status, " after ", time.Since(began))]++
			})
		}
		for i := range 20 {
			try(fmt.Sprint("10.0.0.7:", i+1))
			try(fmt.Sprintf("[2001:db8::%x]:1", i+1)) // one customer
		}
		try("10.0.0.8:1")
		tries.Wait()
		if statuses["10.0.0.7 401 after 1s"] != 4 || statuses["10.0.0.7 429 after 0s"] != 16 || statuses["10.0.0.8 401 after 1s"] != 1 {
			t.Errorf("answers = %v, want four late ones and 16 refusals for one address, and one late one for another", statuses)
		}
		late := 0
		for what, n := range statuses {
			if strings.HasPrefix(what, "[2001") && strings.HasSuffix(what, " 401 after 1s") {
				late += n
			}
		}
		if late != 4 {
			t.Errorf("answers = %v, want four late ones for a network of IPv6", statuses)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("41 in one second = %d lines, want one: %s", lines, &log)
		}
		log.Reset()
		ended, end := context.WithCancel(t.Context())
		end()
		if status := wrong.Delay(httptest.NewRecorder(), request(t, "POST", "/login", "10.0.0.7:1").WithContext(ended)); status != 0 {
			t.Errorf("Delay for a client that is gone = %d, want 0", status)
		}
		if !strings.Contains(log.String(), "from=10.0.0.7:1 requests=41") {
			t.Errorf("log = %s, want the count of those that had no line", &log)
		}
		if len(wrong.waiting) != 0 || wrong.all != 0 {
			t.Errorf("waiting = %v, %d, want none left", wrong.waiting, wrong.all)
		}
	})
}

// TestWrongIsBounded: many addresses do not hold more than a part of the connections.
func TestWrongIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wrong := NewWrong(nil)
		var tries sync.WaitGroup
		for i := range maxAllWaiting {
			tries.Go(func() { wrong.Delay(httptest.NewRecorder(), request(t, "GET", "/", fmt.Sprintf("10.0.%d.1:1", i))) })
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		if status := wrong.Delay(w, request(t, "GET", "/", "10.1.0.1:1")); status != http.StatusTooManyRequests || w.Header().Get("Connection") != "close" {
			t.Errorf("one more = %d with %v, want 429 and the connection closed", status, w.Header())
		}
		tries.Wait()
	})
}
