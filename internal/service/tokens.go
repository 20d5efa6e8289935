package service

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// Tokens are those of an admin port. A request carries one of them. Without Admin no
// request needs one.
type Tokens struct {
	Admin    Secret `env:"ADMIN_TOKEN" doc:"Token for ADMIN_ADDR, but for /metrics, /healthz and /readyz, of 16 characters at least; empty: none, and only this machine is answered."`
	Messages Secret `env:"MESSAGES_TOKEN" doc:"Token that opens POST /messages and GET /messages on ADMIN_ADDR and nothing else, for a bot of your own; empty: ADMIN_TOKEN alone does."`
	Read     Secret `env:"READ_TOKEN" doc:"Token that opens what only reads on ADMIN_ADDR, users' reports among it, but no profiles; empty: ADMIN_TOKEN alone does."`
}

// Validate names every fault.
func (t Tokens) Validate() error {
	faults := []error{CheckToken("ADMIN_TOKEN", t.Admin)}
	seen := map[Secret]string{t.Admin: "ADMIN_TOKEN"}
	for _, other := range []struct {
		name  string
		token Secret
	}{{"MESSAGES_TOKEN", t.Messages}, {"READ_TOKEN", t.Read}} {
		if other.token == "" {
			continue
		}
		switch same := seen[other.token]; {
		case t.Admin == "":
			faults = append(faults, Faultf(other.name, "needs ADMIN_TOKEN: without it no request needs a token"))
		case same != "":
			faults = append(faults, Faultf(other.name, "must differ from %s", same))
		default:
			faults = append(faults, CheckToken(other.name, other.token))
		}
		seen[other.token] = other.name
	}
	return errors.Join(faults...)
}

// right is what a token opens.
type right int

const (
	rightNone right = iota
	rightAdmin
	rightMessages
	rightRead
)

// who names the right in the audit's lines: by the setting, never by its value.
func (k right) who() string {
	switch k {
	case rightAdmin:
		return "ADMIN_TOKEN"
	case rightMessages:
		return "MESSAGES_TOKEN"
	case rightRead:
		return "READ_TOKEN"
	case rightNone:
	}
	return "nobody"
}

// opens reports whether the right is enough for a request.
func (k right) opens(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch k {
	case rightAdmin:
		return true
	case rightMessages:
		return r.URL.Path == messagesPath && (reads || r.Method == http.MethodPost)
	case rightRead:
		return reads && !strings.HasPrefix(r.URL.Path, profilesPath) // a profile costs processor time
	case rightNone:
	}
	return false
}

const (
	messagesPath = "/messages"
	profilesPath = "/debug/pprof/"
)

// of returns the right of a request's token, and whether the request has a token at all.
// Each token is compared in the same time: the sums have one length.
func (t Tokens) of(r *http.Request) (found right, given bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(token))
	for _, one := range []struct {
		right
		token Secret
	}{{rightAdmin, t.Admin}, {rightMessages, t.Messages}, {rightRead, t.Read}} {
		want := sha256.Sum256([]byte(one.token.Reveal()))
		if one.token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			found = one.right
		}
	}
	if !strings.EqualFold(scheme, "Bearer") {
		found = rightNone
	}
	return found, token != ""
}
