package webhook

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"chatclub/internal/queue"
)

// pipes is a listener without sockets.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error { close(p.conns); return nil } // the server calls it once
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// serve serves h with the time-outs of the program until the test ends.
func serve(t *testing.T, h http.Handler) pipes {
	t.Helper()
	p := pipes{make(chan net.Conn)}
	srv := &http.Server{Handler: h, ReadTimeout: 5 * time.Second, WriteTimeout: 13 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(p) }()
	t.Cleanup(func() {
		_ = srv.Close() // the error is of connections that are closed
		<-ended
	})
	return p
}

// post sends a head that claims a body of that length, then pieces of the body
// with a pause before each. It returns the status of the answer, 0 for none.
func (p pipes) post(signature string, length int, pause time.Duration, pieces ...string) int {
	client, server := net.Pipe()
	defer client.Close()
	p.conns <- server
	answered := make(chan int)
	go func() {
		status := 0
		if res, err := http.ReadResponse(bufio.NewReader(client), nil); err == nil {
			status = res.StatusCode
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		_ = client.Close()
		answered <- status
	}()
	_, _ = fmt.Fprintf(client, "POST /webhook HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: %d\r\n\r\n", SignatureHeader, signature, length)
	for _, piece := range pieces {
		time.Sleep(pause)
		_, _ = io.WriteString(client, piece) // fails once the answer was sent
	}
	return <-answered
}

// forged has the form of a signature.
var forged = "sha256=" + strings.Repeat("0", 64)

// late confirms after that time, unless the context ends first.
type late time.Duration

func (l late) Publish(ctx context.Context, _ ...queue.Message) error {
	select {
	case <-time.After(time.Duration(l)):
		return nil
	case <-ctx.Done():
		return queue.ErrUnavailable
	}
}

// TestSlowBodies checks that Messenger's bodies get through a slow network to a
// slow broker while many clients send unsigned bodies slowly.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(c *Config) { c.MaxInFlight, c.Broker = 8, late(time.Second) })
		p := serve(t, f)
		var all sync.WaitGroup
		attacks, refused := 0, 0
		begin := time.Now()
		for tick := 0; time.Since(begin) < 20*time.Second; tick++ {
			attacks++
			all.Go(func() { p.post(forged, MaxBody, time.Second, "{", `"`, "o", "b", "j", "e", "c", "t") })
			if tick%40 == 39 {
				all.Go(func() {
					if code := p.post(sign256([]byte(oneText)), len(oneText), 20*time.Millisecond, oneText[:50], oneText[50:]); code != 200 {
						refused++
						t.Logf("after %v: %d", time.Since(begin), code)
					}
				})
			}
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if n := f.readers.count(); n != 64 {
			t.Errorf("bodies being read = %d, want 64", n)
		}
		all.Wait()
		if refused > 0 {
			t.Errorf("Messenger's requests refused = %d, want 0", refused)
		}
		if got := testutil.ToFloat64(f.metrics.requests[tooSlow]); got != float64(attacks) {
			t.Errorf("bodies that came too slowly = %v, want %d", got, attacks)
		}
		if f.readers.count() != 0 || len(f.slots) != 0 {
			t.Errorf("at the end %d are read and %d handled, want none", f.readers.count(), len(f.slots))
		}
	})
}

// TestReadersAreBounded checks that a new request takes the place of the oldest
// when all places are taken.
func TestReadersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(c *Config) { c.MaxInFlight = 1 })
		p := serve(t, f)
		var all sync.WaitGroup
		ends := make([]time.Duration, 70)
		begin := time.Now()
		for i := range ends {
			all.Go(func() {
				if code := p.post(forged, 100, 0, "{"); code != http.StatusRequestTimeout {
					t.Errorf("body %d = %d, want 408", i, code)
				}
				ends[i] = time.Since(begin)
			})
			time.Sleep(time.Millisecond)
			if n := f.readers.count(); n > 64 {
				t.Errorf("bodies being read = %d, want at most 64", n)
			}
		}
		if err := testutil.GatherAndCompare(f.registry, strings.NewReader(
			"# HELP chatclub_webhook_readers Bodies being read, whose senders are not verified yet.\n# TYPE chatclub_webhook_readers gauge\nchatclub_webhook_readers 64\n",
		), "chatclub_webhook_readers"); err != nil {
			t.Error(err)
		}
		if w := f.postSigned(oneText); w.Code != http.StatusOK { // the 71st
			t.Errorf("POST while all places are taken = %d, want 200", w.Code)
		}
		all.Wait()
		for i, got := range ends {
			want := time.Duration(i)*time.Millisecond + 5*time.Second // the server's time for a request
			if i < 7 {
				want = time.Duration(64+i) * time.Millisecond // when one more came
			}
			if got != want {
				t.Errorf("body %d was read until %v, want %v", i, got, want)
			}
		}
	})
}

// stingy reads a byte first and then half of the buffer each time. It records how
// much memory the caller held for the bytes that had arrived.
type stingy struct {
	came, most int
	worst      float64
}

func (s *stingy) Read(b []byte) (int, error) {
	s.most = max(s.most, s.came+len(b))
	s.worst = max(s.worst, float64(s.came+len(b))/float64(max(s.came, 4096)))
	if s.came >= 100_000 {
		return 0, io.ErrUnexpectedEOF
	}
	n := max(1, len(b)/2)
	s.came += n
	return n, nil
}

// TestMemoryFollowsTheBody checks that a claimed length takes no memory.
func TestMemoryFollowsTheBody(t *testing.T) {
	t.Parallel()
	for _, length := range []int{MaxBody, -1} {
		s := &stingy{}
		if _, err := readBody(s, length, MaxBody, func(int) bool { return true }); err == nil {
			t.Error("readBody of a broken body = nil, want an error")
		}
		if s.worst > 2 {
			t.Errorf("readBody of claimed length %d held %d bytes, %.1f times what had come, want at most twice", length, s.most, s.worst)
		}
	}
}

// fullBatch returns a body as Messenger sends it with that many texts of 150
// Cyrillic letters.
func fullBatch(texts int) string {
	items := make([]string, texts)
	for i := range items {
		items[i] = fmt.Sprintf(`{"sender":{"id":"5276542345678901"},"recipient":{"id":"106378625516323"},"timestamp":1763600000004,"message":{"mid":"m_%020d","text":"%s"}}`, i, strings.Repeat(`\u044f`, 150))
	}
	return onPage(items...)
}

// TestFullBatch checks that the most updates that Messenger puts into one body are
// taken, also if their texts are long.
func TestFullBatch(t *testing.T) {
	t.Parallel()
	for _, texts := range []int{1000, 5000} {
		body := fullBatch(texts)
		if len(body) < 1<<20 {
			t.Fatalf("a batch of %d texts has %d bytes, want more than 1 MiB", texts, len(body))
		}
		f := setup(t, nil)
		if w := f.postSigned(body); w.Code != http.StatusOK {
			t.Errorf("POST of %d texts, %d bytes = %d, want 200", texts, len(body), w.Code)
		}
		if got := len(f.published.inbound()); got != texts {
			t.Errorf("POST of %d texts made %d events", texts, got)
		}
	}
}

// TestSlowLargeBodies checks that clients without the secret cannot hold the memory
// of bodies against Messenger's, large ones among them.
func TestSlowLargeBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const memory = 64 << 20
		f := setup(t, func(c *Config) { c.MaxInFlight = 8 })
		p := serve(t, f)
		part, small, large := strings.Repeat("x", 3<<20), fullBatch(1000), fullBatch(6000)
		var all sync.WaitGroup
		for i := range 48 { // 144 MiB
			all.Go(func() {
				if code := p.post(forged, 16<<20, 0, part); code != http.StatusRequestTimeout {
					t.Errorf("unsigned body %d that stops = %d, want 408", i, code)
				}
			})
			time.Sleep(10 * time.Millisecond)
			if held := f.readers.memoryHeld(); held > memory {
				t.Fatalf("bodies hold %d bytes, want at most %d", held, memory)
			}
			for at, body := range map[int]string{10: oneText, 20: small, 30: large} {
				if i%40 == at {
					all.Go(func() {
						if code := p.post(sign256([]byte(body)), len(body), 20*time.Millisecond, body[:len(body)/2], body[len(body)/2:]); code != http.StatusOK {
							t.Errorf("Messenger's body of %d bytes after %d unsigned = %d, want 200", len(body), i, code)
						}
					})
				}
			}
		}
		all.Wait()
		time.Sleep(time.Second) // the server's connections end
		if held := f.readers.memoryHeld(); held != 0 {
			t.Errorf("at the end bodies hold %d bytes, want none", held)
		}
	})
}

// TestMemoryOfHandledBodies checks that signed bodies on their way to a broker that
// does not confirm take bounded memory too: more of them are refused at once.
func TestMemoryOfHandledBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(c *Config) { c.MaxInFlight, c.Broker = 32, late(time.Hour) })
		body := fullBatch(5000) // 5 MiB, and twice as much is made of it: four fit into 64 MiB
		type end struct {
			code  int
			after time.Duration
		}
		ends := make([]end, 6)
		var all sync.WaitGroup
		for i := range ends {
			all.Go(func() {
				begin := time.Now()
				ends[i] = end{f.postSigned(body).Code, time.Since(begin)}
			})
			synctest.Wait()
		}
		all.Wait()
		for i, got := range ends {
			want := end{http.StatusServiceUnavailable, 3 * time.Second} // the broker's
			if i >= 4 {
				want.after = 0
			}
			if got != want {
				t.Errorf("signed body %d ended as %v, want %v", i, got, want)
			}
		}
		if held := f.readers.memoryHeld(); held != 0 {
			t.Errorf("at the end bodies hold %d bytes, want none", held)
		}
	})
}

// TestReadersTogether lets many bodies come, take memory and go at once. What an
// evicted one has not given back yet counts.
func TestReadersTogether(t *testing.T) {
	t.Parallel()
	const places, memory = 8, 1000
	r := newReaders(places, memory)
	var taken atomic.Int64
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for n := range 500 {
				me := r.enter(http.NewResponseController(discard{}))
				mine := 0
				take := func(n int) bool {
					ok := r.hold(me, n)
					if ok {
						mine += n
						if now := taken.Add(int64(n)); now > memory {
							t.Errorf("bodies take %d bytes, want at most %d", now, memory)
						}
					}
					return ok
				}
				for size := range (i + n) % 7 {
					if !take(50 * size) {
						break
					}
				}
				if evicted := r.remove(me); !evicted && n%3 > 0 {
					take(2 * mine)
				}
				if n := r.count(); n > places {
					t.Errorf("%d bodies are read, want at most %d", n, places)
				}
				taken.Add(int64(-mine))
				r.release(me)
			}
		})
	}
	all.Wait()
	if n, held := r.count(), r.memoryHeld(); n != 0 || held != 0 {
		t.Errorf("at the end %d bodies are read and %d bytes held, want none", n, held)
	}
}

// memoryHeld returns how many bytes bodies hold.
func (r *readers) memoryHeld() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}
