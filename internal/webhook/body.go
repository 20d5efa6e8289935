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
	// minReaders is the number of bodies that can be read at a time at least, even
	// where MaxInFlight is smaller.
	minReaders = 64
	// firstRead holds Messenger's usual body of 1 KiB.
	firstRead = 4 << 10
	// made counts the memory of events and messages, as a multiple of their body. Measured
	// until the confirm: 1.3 for long texts, 4.3 for short ones, 6.4 for these with Config.All.
	made = 2
	// memoryEach is the memory of bodies for each of MaxInFlight: a full batch of
	// 1,000 short texts.
	memoryEach = 1 << 20
)

// readSigned returns the body of a request, its signature and accepted, if Messenger signed it.
// Otherwise the result says what is wrong. The caller calls release when nothing
// is kept of the body any more. Until then the request has a slot.
//
// Verifying the signature takes the whole body, and until then any client may
// have sent it. So reading a body takes no slot, and memory only for the bytes
// that have arrived.
func (h *Handler) readSigned(w http.ResponseWriter, r *http.Request) (body []byte, claimed signature, release func(), res result) {
	claimed, ok := parseSignature(r.Header.Get(SignatureHeader))
	if !ok {
		return nil, claimed, func() {}, forbidden
	}
	body, release, res = h.readVerified(w, r, MaxBody, func(body []byte) bool { return claimed.verifies(body, h.cfg.AppSecret) })
	return body, claimed, release, res
}

// readVerified is readSigned for any signature, which verifies checks, and for a
// body of at most so many bytes.
func (h *Handler) readVerified(w http.ResponseWriter, r *http.Request, most int, verifies func([]byte) bool) (body []byte, release func(), res result) {
	if r.ContentLength > int64(most) {
		return nil, func() {}, tooLarge
	}
	me := h.readers.enter(http.NewResponseController(w))
	free := func() { h.readers.release(me) }
	body, err := readBody(http.MaxBytesReader(w, r.Body, int64(most)), int(r.ContentLength), most, func(n int) bool { return h.readers.hold(me, n) })
	signed := err == nil && verifies(body)
	evicted := h.readers.remove(me)
	switch {
	case evicted, errors.Is(err, os.ErrDeadlineExceeded):
		res = tooSlow
	case errors.Is(err, errFull):
		res = overloaded
	case err != nil:
		res = badRequest // the client broke off
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			res = tooLarge
		}
	case !signed:
		res = forbidden
	case !h.readers.hold(me, made*len(body)):
		res = overloaded
	default:
		select {
		case h.slots <- struct{}{}:
			return body, func() { <-h.slots; free() }, accepted
		default:
			res = overloaded
		}
	}
	free()
	return nil, func() {}, res
}

// errFull says that the bodies of other requests take all memory that bodies may.
var errFull = errors.New("no memory is left for bodies")

// readBody reads a whole body of at most so many bytes. length is its length, or
// negative if that is unknown. Memory is taken for at most twice the bytes that
// have arrived, not for the length that is claimed, and for as much as arrived while
// it grows. hold is asked for all of it, and told of memory given back.
func readBody(from io.Reader, length, most int, hold func(int) bool) ([]byte, error) {
	if length >= 0 {
		most = length
	}
	most++ // one byte more, to see the end
	var body []byte
	for {
		if len(body) == cap(body) {
			size, before := min(max(firstRead, 2*len(body)), most), cap(body)
			if !hold(size) {
				return nil, errFull
			}
			body = append(make([]byte, 0, size), body...)
			hold(-before)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		case len(body) == most:
			return nil, io.ErrUnexpectedEOF // longer than claimed
		}
	}
}

// readers bounds how many bodies are read at a time, and the memory of all bodies,
// also while their requests are handled. When all places or all memory is taken, a
// body that is being read takes the place of the oldest, whose reading ends. So
// clients that send slowly cannot keep out a client that sends at once, however
// many they are. With 512 places and a thousand such clients a second each request
// has half a second, and Messenger's bodies take milliseconds. The oldest itself is
// refused, as is every body when requests that are handled have all memory.
//
// To refuse the new request instead would let 512 slow clients every five
// seconds keep Messenger out.
//
// The zero value is not useful; newReaders makes a readers. Safe for concurrent
// use.
type readers struct {
	places int
	memory int // bytes

	mu      sync.Mutex
	changed *sync.Cond // on mu: memory was given back, or a reader evicted
	order   *list.List // of *reader, the oldest in front
	held    int        // bytes
	leaving int        // those of them that evicted readers are about to give back
}

// reader is a request whose body is being read, and then handled.
type reader struct {
	conn    *http.ResponseController
	place   *list.Element
	held    int // bytes
	evicted bool
}

func newReaders(places, memory int) *readers {
	r := &readers{places: places, memory: memory, order: list.New()}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// enter takes a place. The caller leaves once, and then releases.
func (r *readers) enter(conn *http.ResponseController) *reader {
	me := &reader{conn: conn}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.order.Len() >= r.places {
		r.evictLocked()
	}
	me.place = r.order.PushBack(me)
	return me
}

// hold takes n more bytes of memory, and reports whether they could be had. It waits
// for those of readers that it evicts, which takes them no longer than to return from
// a read. With a negative n it gives memory back.
func (r *readers) hold(me *reader, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n > 0 && !me.evicted && r.held+n > r.memory {
		for r.held-r.leaving+n > r.memory {
			if r.order.Len() == 0 || r.order.Front() == me.place {
				return false
			}
			r.evictLocked()
		}
		r.changed.Wait()
	}
	if n > 0 && me.evicted {
		return false
	}
	r.takeLocked(me, n)
	return true
}

// takeLocked adds n bytes to a reader's memory.
func (r *readers) takeLocked(me *reader, n int) {
	r.held += n
	me.held += n
	if me.evicted {
		r.leaving += n
	}
	if n < 0 {
		r.changed.Broadcast()
	}
}

// evictLocked takes its place from the oldest, and ends its reading.
func (r *readers) evictLocked() {
	oldest, _ := r.order.Remove(r.order.Front()).(*reader)
	oldest.evicted = true
	r.leaving += oldest.held
	// It does not block. It fails where there is no connection, as in some tests.
	_ = oldest.conn.SetReadDeadline(time.Unix(1, 0))
	r.changed.Broadcast()
}

// remove gives the place back and reports whether it was lost before. Then the
// connection is of no more use.
func (r *readers) remove(me *reader) (evicted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !me.evicted {
		r.order.Remove(me.place)
	}
	return me.evicted
}

// release gives the memory back.
func (r *readers) release(me *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeLocked(me, -me.held)
}

// count returns how many bodies are being read.
func (r *readers) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order.Len()
}
