package service

import (
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"chatclub/internal/audit"
)

// GuardConfig is the configuration of a Guard.
type GuardConfig struct {
	Tokens     Tokens                // without Admin none is needed
	Hosts      []string              // names of the server beside addresses and names that nobody else can have
	LocalOnly  bool                  // requests from other machines are refused
	Log        *slog.Logger          // nil: no log
	Registerer prometheus.Registerer // nil: what is refused is not counted
}

// Guard refuses requests that a web page can make an operator's browser send. A
// browser reaches ports that nobody else outside can, so that a private network
// is no protection against it. The rules are:
//
//   - A request does not come from another site, as http.CrossOriginProtection sees it in
//     Sec-Fetch-Site and Origin. To read costs, too. Only the page at / may be opened by a
//     link of another site.
//   - A body is JSON. A form or a script that sends text without asking before
//     (a "simple request") cannot say that.
//   - The Host is an address or a name that no other site can have. A site whose
//     name was changed to our address (DNS rebinding) would count as the same site.
//   - With tokens, the request carries one whose right is enough. No browser adds it by
//     itself, so the Host may then be any. A wrong one is answered late; the right one
//     never waits for that.
//
// A program such as curl sends neither Origin nor Sec-Fetch-Site. Each request that passes
// and is not GET leaves a line of the audit. No browser keeps an answer. NewGuard makes one.
type Guard struct {
	cfg     GuardConfig
	next    http.Handler
	cross   *http.CrossOriginProtection
	trail   *audit.Trail
	wrong   *audit.Wrong
	refused map[refusal]prometheus.Counter
}

// refusal says why a request is refused. It is a metric label.
type refusal string

const (
	refusedSite    refusal = "site"    // a browser sends it for another site
	refusedType    refusal = "type"    // its body is not JSON
	refusedHost    refusal = "host"    // its Host may be another site's
	refusedMachine refusal = "machine" // it comes from another machine, and there is no token
	refusedMissing refusal = "missing" // it has no token
	refusedWrong   refusal = "wrong"   // its token is wrong
	refusedRight   refusal = "right"   // its token does not open this
)

// refusedHelp explains the counter of refusals.
const refusedHelp = "Requests that the admin port refused, by reason: of another site in a browser (site), with a body that is not JSON (type), under a Host that may be another site's, from another machine without ADMIN_TOKEN, without a token (missing), with a wrong one, or with one whose right is not enough."

// NewGuard puts a guard before next.
func NewGuard(next http.Handler, cfg GuardConfig) *Guard {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "chatclub_admin_refused_total",
		Help: refusedHelp,
	}, []string{"reason"})
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(refused)
	}
	g := &Guard{
		cfg: cfg, next: next, cross: http.NewCrossOriginProtection(),
		trail: audit.NewTrail(cfg.Log), wrong: audit.NewWrong(cfg.Log), refused: make(map[refusal]prometheus.Counter),
	}
	for _, why := range []refusal{refusedSite, refusedType, refusedHost, refusedMachine, refusedMissing, refusedWrong, refusedRight} {
		g.refused[why] = refused.WithLabelValues(string(why))
	}
	return g
}

// ServeHTTP implements http.Handler.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	needed := g.cfg.Tokens.Admin != ""
	have, given := g.cfg.Tokens.of(r)
	switch {
	case g.cfg.LocalOnly && !isLocal(r):
		g.refuse(w, refusedMachine, http.StatusForbidden, "without ADMIN_TOKEN only this machine is answered: set it here, and send Authorization: Bearer TOKEN\n")
	case g.cross.Check(r) != nil || readsForOthers(r):
		g.refuse(w, refusedSite, http.StatusForbidden, "requests from another site are refused\n")
	case !jsonBody(r):
		g.refuse(w, refusedType, http.StatusUnsupportedMediaType, "the Content-Type of a body must be application/json\n")
	case !needed && !g.ownHost(r.Host):
		g.refuse(w, refusedHost, http.StatusForbidden, "this Host is refused: use an address, a name without a dot, a name that the settings give the server, or a token\n")
	case needed && have == rightNone:
		g.unauthorized(w, r, given)
	case needed && !have.opens(r):
		g.refuse(w, refusedRight, http.StatusForbidden, have.who()+" does not open this\n")
	default:
		if needed {
			keepIn(r.Context())
		}
		private(w.Header())
		g.trail.Serve(w, r, have.who(), r.URL.Path == messagesPath, g.next)
	}
}

// unauthorized answers a request without a token at once, and one with a wrong token late.
func (g *Guard) unauthorized(w http.ResponseWriter, r *http.Request, given bool) {
	why, status := refusedMissing, http.StatusUnauthorized
	if given {
		if why, status = refusedWrong, g.wrong.Delay(w, r); status == 0 {
			g.refused[why].Inc()
			return
		}
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	g.refuse(w, why, status, "the token in ADMIN_TOKEN is needed: Authorization: Bearer TOKEN\n")
}

// refuse answers a request that is refused, and counts it.
func (g *Guard) refuse(w http.ResponseWriter, why refusal, status int, text string) {
	g.refused[why].Inc()
	plain(w, status, text)
}

// Flush writes what the audit has not written yet. Call it after the last request.
func (g *Guard) Flush() { g.trail.Flush() }

// isLocal reports whether a request comes from this machine.
func isLocal(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// readsForOthers reports whether a browser reads for another site. A link to the page at /
// is none of that: the site that has the link does not see the page.
func readsForOthers(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
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
func (g *Guard) ownHost(header string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	isOurs := func(name string) bool { return name != "" && strings.EqualFold(name, host) }
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || slices.ContainsFunc(g.cfg.Hosts, isOurs)
}
