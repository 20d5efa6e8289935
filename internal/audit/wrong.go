package audit

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// wrongDelay is the delay of the answer to a wrong secret.
	wrongDelay = time.Second
	// maxWaiting is the most answers that one address waits for, and maxAllWaiting of all
	// addresses together. Each holds a connection, of which a server has 256.
	maxWaiting, maxAllWaiting = 4, 64
	// tellEvery is the period of the line about wrong secrets.
	tellEvery = time.Second
)

// Wrong answers whoever has a wrong token or password. A wrong one costs its address a
// second; the right one is compared before and never comes here. NewWrong makes one. Safe
// for concurrent use.
type Wrong struct {
	log    *slog.Logger
	seldom *Seldom

	mu      sync.Mutex
	waiting map[string]int // by address
	all     int
}

// NewWrong returns a Wrong. log may be nil: then nothing is written.
func NewWrong(log *slog.Logger) *Wrong {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Wrong{log: log, seldom: &Seldom{Every: tellEvery}, waiting: make(map[string]int)}
}

// Delay waits for a second and returns the status of the answer, 401. It returns 429 at
// once where too many from this address wait, and sets the headers of that. It returns 0
// when the client is gone.
func (a *Wrong) Delay(w http.ResponseWriter, r *http.Request) (status int) {
	if n, tell := a.seldom.Add(time.Now()); tell {
		a.log.WarnContext(r.Context(), "wrong token or password", "path", r.URL.Path[:min(len(r.URL.Path), maxPath)], "from", r.RemoteAddr, "requests", n)
	}
	from := Address(r)
	if !a.enter(from) {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close")
		return http.StatusTooManyRequests
	}
	defer a.leave(from)
	wait := time.NewTimer(wrongDelay)
	defer wait.Stop()
	select {
	case <-wait.C:
		return http.StatusUnauthorized
	case <-r.Context().Done():
		return 0
	}
}

func (a *Wrong) enter(from string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[from] >= maxWaiting || a.all >= maxAllWaiting {
		return false
	}
	a.waiting[from]++
	a.all++
	return true
}

func (a *Wrong) leave(from string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all--
	if a.waiting[from]--; a.waiting[from] == 0 {
		delete(a.waiting, from)
	}
}

// sameNetwork are the bits of an IPv6 address that all addresses of one customer share.
const sameNetwork = 64

// Address returns the address of a request's client: without the port, and of IPv6 the
// network.
func Address(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	a := from.Addr().Unmap().WithZone("")
	if a.Is4() || a.IsLoopback() {
		return a.String()
	}
	network, _ := a.Prefix(sameNetwork) // 64 is a length of IPv6
	return network.String()
}
