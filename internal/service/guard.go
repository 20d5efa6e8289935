package service

import (
	"crypto/sha256"
	"crypto/subtle"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard refuses requests that a web page can make an operator's browser send to next. A
// browser reaches ports that nobody else outside can, so that a private network
// is no protection against it. The rules are:
//
//   - A request that changes something does not come from another site, as
//     http.CrossOriginProtection sees it in Sec-Fetch-Site and Origin.
//   - Its body is JSON. A form or a script that sends text without asking before
//     (a "simple request") cannot say that.
//   - The Host is an address or a name that no other site can have. A site whose
//     name was changed to our address (DNS rebinding) would count as the same site.
//   - With a token, the request carries it. No browser adds it by itself, so the
//     Host may then be any.
//
// A program such as curl sends neither Origin nor Sec-Fetch-Site.
type guard struct {
	next  http.Handler
	cross *http.CrossOriginProtection
	token Secret // "": none
	host  string // a name that is ours, beside those that ownHost knows
}

// AnyHost is the host of a server whose sessions are in a cookie, behind a login. No
// browser sends the cookie to another name, whatever its address is.
const AnyHost = "*"

// Guard puts a guard before next. token may be empty; host is AnyHost, or a name of the
// server beside addresses and names that nobody else can have.
func Guard(next http.Handler, token Secret, host string) http.Handler {
	return &guard{next: next, cross: http.NewCrossOriginProtection(), token: token, host: host}
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case g.cross.Check(r) != nil:
		plain(w, http.StatusForbidden, "requests from another site are refused\n")
	case !jsonBody(r):
		plain(w, http.StatusUnsupportedMediaType, "the Content-Type of a body must be application/json\n")
	case g.token != "" && !g.authorized(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		plain(w, http.StatusUnauthorized, "the token in ADMIN_TOKEN is needed: Authorization: Bearer TOKEN\n")
	case g.token == "" && g.host != AnyHost && !ownHost(r.Host, g.host):
		plain(w, http.StatusForbidden, "this Host is refused: use an address, a name without a dot, the name in ADMIN_ADDR, or a token\n")
	default:
		if g.token != "" {
			keepIn(r.Context())
		}
		g.next.ServeHTTP(w, r)
	}
}

// local refuses requests from other machines.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() {
			plain(w, http.StatusForbidden, "without ADMIN_TOKEN only this machine is answered: set it here, and send Authorization: Bearer TOKEN\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorized reports whether r carries the token. The sums have the same length,
// so that the comparison takes the same time for every token.
func (g *guard) authorized(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.token.Reveal()))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// jsonBody reports whether the body of a request, if it may have one, is JSON. No
// body needs no type, but a type that is named must be JSON in any case.
func jsonBody(r *http.Request) bool {
	named := r.Header.Get("Content-Type")
	if r.Method == http.MethodGet || r.Method == http.MethodHead || named == "" && r.ContentLength == 0 {
		return true
	}
	kind, _, err := mime.ParseMediaType(named)
	return err == nil && kind == "application/json"
}

// ownHost reports whether a Host header names no site of somebody else: an IP
// address, a name without a dot (localhost, or a container's or machine's), a name
// below localhost, or ours. Names without a dot cannot be registered. A request
// without the header comes from no browser.
func ownHost(header, ours string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || ours != "" && strings.EqualFold(host, ours)
}
