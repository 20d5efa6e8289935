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
	// minReaders is how many bodies can be read at a time however few requests
	// are handled.
	minReaders = 64
	// firstRead holds Messenger's usual body of 1 KiB.
	firstRead = 4 << 10
)

// verified returns the body of a request that Messenger signed, and accepted;
// otherwise what is wrong.
//
// Before the signature is verified, which takes the whole body, anybody may
// have sent it. So bodies are read apart from the slots for what Messenger
// sent, and take memory only for what has come.
func (h *Handler) verified(w http.ResponseWriter, r *http.Request) ([]byte, result) {
	claimed, ok := parseSignature(r.Header.Get(SignatureHeader))
	if !ok {
		return nil, forbidden
	}
	if r.ContentLength > MaxBody {
		return nil, tooLarge
	}
	me := h.readers.enter(http.NewResponseController(w))
	body, err := readBody(http.MaxBytesReader(w, r.Body, MaxBody), r.ContentLength)
	good := err == nil && claimed.verifies(body, h.cfg.AppSecret)
	switch cut := h.readers.leave(me); {
	case cut, errors.Is(err, os.ErrDeadlineExceeded):
		return nil, tooSlow
	case err != nil:
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge
		}
		return nil, badRequest // the client broke off
	case !good:
		return nil, forbidden
	}
	return body, accepted
}

// readBody reads all of a body of that length, negative if it is not known, and
// of at most MaxBody bytes. It takes memory for twice of what has come, not for
// what is claimed.
func readBody(from io.Reader, length int64) ([]byte, error) {
	most := MaxBody + 1 // one byte more to see the end
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
			return nil, io.ErrUnexpectedEOF // longer than it said
		case len(body) == cap(body):
			body = append(make([]byte, 0, min(2*len(body), most)), body...)
		}
	}
}

// readers bounds how many bodies are read at a time. Who comes when all places
// are taken gets that of whom it has taken longest, and whose reading ends
// then. So clients that send slowly, however many they are, keep nobody out who
// sends at once: a thousand of them a second leave each of 512 half a second,
// and Messenger's bodies take milliseconds. To refuse the newcomer instead would
// let 512 such clients every five seconds keep Messenger out.
//
// The zero value is not useful; newReaders makes it. Safe for concurrent use.
type readers struct {
	limit int

	mu    sync.Mutex
	order *list.List // of *reader, who came first in front
}

// reader is a request whose body is being read.
type reader struct {
	conn  *http.ResponseController
	place *list.Element
	cut   chan struct{} // nil while it has its place; closed once its reading ends
}

func newReaders(limit int) *readers { return &readers{limit: limit, order: list.New()} }

// enter takes a place. Each reader leaves once.
func (r *readers) enter(conn *http.ResponseController) *reader {
	me := &reader{conn: conn}
	var oldest *reader
	r.mu.Lock()
	if r.order.Len() >= r.limit {
		oldest, _ = r.order.Remove(r.order.Front()).(*reader)
		oldest.cut = make(chan struct{})
	}
	me.place = r.order.PushBack(me)
	r.mu.Unlock()
	if oldest != nil {
		// It fails where there is no connection, as in some tests.
		_ = oldest.conn.SetReadDeadline(time.Unix(1, 0))
		close(oldest.cut)
	}
	return me
}

// leave gives the place back, and tells whether it was lost before. The
// connection is of no more use then.
func (r *readers) leave(me *reader) (cut bool) {
	r.mu.Lock()
	lost := me.cut
	if lost == nil {
		r.order.Remove(me.place)
	}
	r.mu.Unlock()
	if lost == nil {
		return false
	}
	<-lost // no one touches the connection after its request has ended
	return true
}

// count is how many bodies are being read.
func (r *readers) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order.Len()
}
