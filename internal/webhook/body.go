package webhook

import (
	"container/list"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// minReaders is how many bodies can be read at a time at least, even where
	// MaxInFlight is smaller.
	minReaders = 64
	// firstRead holds Messenger's usual body of 1 KiB.
	firstRead = 4 << 10
)

// readSigned returns the body of a request and accepted, if Messenger signed it.
// Otherwise the result says what is wrong.
//
// Verifying the signature takes the whole body, and until then any client may
// have sent it. So reading a body takes no slot, and memory only for the bytes
// that have arrived.
func (h *Handler) readSigned(w http.ResponseWriter, r *http.Request) ([]byte, result) {
	claimed, ok := parseSignature(r.Header.Get(SignatureHeader))
	if !ok {
		return nil, forbidden
	}
	return h.readVerified(w, r, func(body []byte) bool { return claimed.verifies(body, h.cfg.AppSecret) })
}

// readVerified is readSigned for any signature, which verifies checks.
func (h *Handler) readVerified(w http.ResponseWriter, r *http.Request, verifies func([]byte) bool) ([]byte, result) {
	if r.ContentLength > MaxBody {
		return nil, tooLarge
	}
	me := h.readers.enter(http.NewResponseController(w))
	body, err := readBody(http.MaxBytesReader(w, r.Body, MaxBody), r.ContentLength)
	signed := err == nil && verifies(body)
	switch evicted := h.readers.leave(me); {
	case evicted, errors.Is(err, os.ErrDeadlineExceeded):
		return nil, tooSlow
	case err != nil:
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge
		}
		return nil, badRequest // the client broke off
	case !signed:
		return nil, forbidden
	}
	return body, accepted
}

// readBody reads a whole body of at most MaxBody bytes. length is its length, or
// negative if that is unknown. Memory is taken for at most twice the bytes that
// have arrived, not for the length that is claimed.
func readBody(from io.Reader, length int64) ([]byte, error) {
	most := MaxBody + 1 // one byte more, to see the end
	if length >= 0 {
		most = int(length) + 1
	}
	body := make([]byte, 0, min(firstRead, most))
	for {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		case len(body) == most:
			return nil, io.ErrUnexpectedEOF // longer than claimed
		case len(body) == cap(body):
			body = append(make([]byte, 0, min(2*len(body), most)), body...)
		}
	}
}

// readers bounds how many bodies are read at a time. When all places are taken,
// a new request takes the place of the oldest, whose reading ends. So clients
// that send slowly cannot keep out a client that sends at once, however many
// they are. With 512 places and a thousand such clients a second each request
// has half a second, and Messenger's bodies take milliseconds.
//
// To refuse the new request instead would let 512 slow clients every five
// seconds keep Messenger out.
//
// The zero value is not useful; newReaders makes a readers. Safe for concurrent
// use.
type readers struct {
	limit int

	mu    sync.Mutex
	order *list.List // of *reader, the oldest in front
}

// reader is a request whose body is being read.
type reader struct {
	conn  *http.ResponseController
	place *list.Element
	// evicted is nil while the reader has its place. It is closed once the
	// connection's deadline is set.
	evicted chan struct{}
}

func newReaders(limit int) *readers { return &readers{limit: limit, order: list.New()} }

// enter takes a place. The caller leaves once.
func (r *readers) enter(conn *http.ResponseController) *reader {
	me := &reader{conn: conn}
	var oldest *reader
	r.mu.Lock()
	if r.order.Len() >= r.limit {
		oldest, _ = r.order.Remove(r.order.Front()).(*reader)
		oldest.evicted = make(chan struct{})
	}
	me.place = r.order.PushBack(me)
	r.mu.Unlock()
	if oldest != nil {
		// It fails where there is no connection, as in some tests.
		_ = oldest.conn.SetReadDeadline(time.Unix(1, 0))
		close(oldest.evicted)
	}
	return me
}

// leave gives the place back and reports whether it was lost before. Then the
// connection is of no more use.
func (r *readers) leave(me *reader) (evicted bool) {
	r.mu.Lock()
	lost := me.evicted
	if lost == nil {
		r.order.Remove(me.place)
	}
	r.mu.Unlock()
	if lost == nil {
		return false
	}
	<-lost // enter must not touch the connection after the request has ended
	return true
}

// count returns how many bodies are being read.
func (r *readers) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order.Len()
}
