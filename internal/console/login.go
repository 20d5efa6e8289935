package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"chatclub/internal/audit"
)

const (
	// cookieName is the cookie of a session.
	cookieName = "chatclub-watch"
	// sessionTime is a working day.
	sessionTime = 12 * time.Hour
	// maxSessions bounds the sessions, which only the password begins: many times what a
	// team has. One more ends the oldest.
	maxSessions = 1000
	// shownSession is the number of digits by which log lines tell sessions apart.
	shownSession = 8
)

// login lets users with the password in. A session is a random cookie, of which this
// process alone knows the digest: a logout ends it, and a restart ends all. newLogin makes
// one. Safe for concurrent use.
type login struct {
	password string
	wrong    *audit.Wrong

	mu       sync.Mutex
	sessions map[digest]time.Time // when each ends
}

// digest is that of a session's cookie. It also names the session in the log.
type digest [sha256.Size]byte

func (d digest) attr() slog.Attr {
	return slog.String("session", hex.EncodeToString(d[:])[:shownSession])
}

func newLogin(password string, log *slog.Logger) *login {
	return &login{password: password, wrong: audit.NewWrong(log), sessions: make(map[digest]time.Time)}
}

// begin begins a session, and returns its cookie.
func (l *login) begin() (cookie string, name digest) {
	cookie = rand.Text()
	name = sha256.Sum256([]byte(cookie))
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest digest
	for s, end := range l.sessions {
		switch {
		case !now.Before(end):
			delete(l.sessions, s)
		case oldest == digest{} || end.Before(l.sessions[oldest]):
			oldest = s
		}
	}
	if len(l.sessions) >= maxSessions {
		delete(l.sessions, oldest)
	}
	l.sessions[name] = now.Add(sessionTime)
	return cookie, name
}

// session returns the session of a request's cookie, if the session goes on.
func (l *login) session(r *http.Request) (name digest, goesOn bool) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return name, false
	}
	name = sha256.Sum256([]byte(c.Value))
	l.mu.Lock()
	defer l.mu.Unlock()
	return name, time.Now().Before(l.sessions[name])
}

// isIn reports whether a request has the cookie of a session that goes on.
func (l *login) isIn(r *http.Request) bool {
	_, goesOn := l.session(r)
	return goesOn
}

// cookie sets or, with age -1, removes the session's cookie. SameSite keeps it from
// all that another site has the browser send.
func (l *login) cookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure would keep it from a page without TLS, as on 127.0.0.1
		Name: cookieName, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	})
}

// enter answers POST /login. The right password waits for no wrong one.
func (l *login) enter(w http.ResponseWriter, r *http.Request) {
	var given struct {
		Password string `json:"password"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&given); err != nil {
		refuse(w, http.StatusBadRequest, "password: must be given")
		return
	}
	// The sums have the same length, so that the comparison takes the same time for
	// every password.
	got, want := sha256.Sum256([]byte(given.Password)), sha256.Sum256([]byte(l.password))
	if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
		cookie, name := l.begin()
		audit.Note(r.Context(), name.attr())
		l.cookie(w, r, cookie, int(sessionTime/time.Second))
		w.WriteHeader(http.StatusNoContent)
		return
	}
	switch l.wrong.Delay(w, r) {
	case http.StatusUnauthorized:
		refuse(w, http.StatusUnauthorized, "this is not the password: it is the value of ADMIN_TOKEN")
	case http.StatusTooManyRequests:
		refuse(w, http.StatusTooManyRequests, "too many wrong passwords come from your address: try again in a second")
	}
}

// logOut answers POST /logout: it ends the session.
func (l *login) logOut(w http.ResponseWriter, r *http.Request) {
	if name, goesOn := l.session(r); goesOn {
		audit.Note(r.Context(), name.attr())
		l.mu.Lock()
		delete(l.sessions, name)
		l.mu.Unlock()
	}
	l.cookie(w, r, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

// protect serves next to those who are in. Others get the page of the login, its
// parts, and a stream that sends them there.
func (l *login) protect(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", l.enter)
	mux.HandleFunc("POST /logout", l.logOut)
	serveParts(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		name, goesOn := l.session(r)
		switch {
		case goesOn:
			audit.Note(r.Context(), name.attr())
			next.ServeHTTP(w, r)
		case r.URL.Path == "/" && r.Method == http.MethodGet:
			serve(w, r, "login.html")
		case r.URL.Path == "/state" && r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			_, _ = w.Write([]byte(loginEvent)) // the reader may be gone
		default:
			refuse(w, http.StatusUnauthorized, "log in first")
		}
	})
	return mux
}

// loginEvent is the last event on the stream of a session that has ended.
const loginEvent = "event: login\ndata: {}\n\n"
