package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// cookieName is the cookie of a session.
	cookieName = "chatclub-watch"
	// sessionTime is a working day.
	sessionTime = 12 * time.Hour
	// wrongDelay is the delay of the answer to a wrong password. Together with
	// maxLogins it bounds the guesses: four a second, of a token that nobody chose to
	// be remembered.
	wrongDelay = time.Second
	maxLogins  = 4
)

// login lets users with the password in. A session is a cookie with its end and a
// signature of it, so that nothing is kept. The key is of this process: a restart ends
// all sessions. newLogin makes one. Safe for concurrent use.
type login struct {
	password string
	key      []byte
	log      *slog.Logger
	slots    chan struct{} // holds an element for each attempt in progress
}

func newLogin(password string, log *slog.Logger) *login {
	l := &login{password: password, key: make([]byte, sha256.Size), log: log, slots: make(chan struct{}, maxLogins)}
	_, _ = rand.Read(l.key) // it never fails
	return l
}

// sign returns the value of a session's cookie.
func (l *login) sign(end time.Time) string {
	text := strconv.FormatInt(end.Unix(), 10)
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte(text))
	return text + "." + hex.EncodeToString(mac.Sum(nil))
}

// isIn reports whether a request has the cookie of a session that goes on.
func (l *login) isIn(r *http.Request) bool {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	text, _, _ := strings.Cut(c.Value, ".")
	unix, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return false
	}
	end := time.Unix(unix, 0)
	return time.Now().Before(end) && hmac.Equal([]byte(c.Value), []byte(l.sign(end)))
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

// enter answers POST /login.
func (l *login) enter(w http.ResponseWriter, r *http.Request) {
	var given struct {
		Password string `json:"password"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&given); err != nil {
		refuse(w, http.StatusBadRequest, "password: must be given")
		return
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "others try to log in at this moment: try again in a second")
		return
	}
	// The sums have the same length, so that the comparison takes the same time for
	// every password.
	got, want := sha256.Sum256([]byte(given.Password)), sha256.Sum256([]byte(l.password))
	if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
		l.cookie(w, r, l.sign(time.Now().Add(sessionTime)), int(sessionTime/time.Second))
		w.WriteHeader(http.StatusNoContent)
		return
	}
	l.log.WarnContext(r.Context(), "wrong password", "from", r.RemoteAddr)
	wait := time.NewTimer(wrongDelay)
	defer wait.Stop()
	select {
	case <-wait.C:
		refuse(w, http.StatusUnauthorized, "this is not the password: it is the value of ADMIN_TOKEN")
	case <-r.Context().Done():
	}
}

// logOut answers POST /logout.
func (l *login) logOut(w http.ResponseWriter, r *http.Request) {
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
		switch {
		case l.isIn(r):
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
