package fakeapi

import (
	"errors"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// guard refuses requests that a web page of another site can make a browser on this
// machine send. Only such a page sends Origin or Sec-Fetch-Site together with
// something that changes the platform, or a Host that is a name of its own (DNS
// rebinding). The zero value is useful.
type guard struct {
	cross http.CrossOriginProtection
	host  string // a name of the platform, beside those that ownHost knows
}

var (
	errForeignSite = errors.New("requests from another site are refused")
	errForeignHost = errors.New("this Host is refused: use an address, a name without a dot, or the name in HTTP_ADDR")
	errNotJSON     = errors.New("the Content-Type must be application/json")
)

// check returns why a request is refused, or nil.
func (g *guard) check(ctx *fasthttp.RequestCtx) error {
	if !ownHost(string(ctx.Host()), g.host) {
		return errForeignHost
	}
	h := &ctx.Request.Header
	origin, site := h.Peek("Origin"), h.Peek("Sec-Fetch-Site")
	if len(origin) == 0 && len(site) == 0 {
		return nil
	}
	r := &http.Request{Method: string(ctx.Method()), Host: string(ctx.Host()), Header: http.Header{}}
	r.Header.Set("Origin", string(origin))
	r.Header.Set("Sec-Fetch-Site", string(site))
	if g.cross.Check(r) != nil {
		return errForeignSite
	}
	return nil
}

// ownHost reports whether a Host header names no site of somebody else: an IP
// address, a name without a dot, which nobody can register, a name below
// localhost, or ours.
func ownHost(header, ours string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || ours != "" && strings.EqualFold(host, ours) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// RefuseForm answers a POST that has a body, or names a type, other than JSON, and
// reports whether it did. A form or a script of another site can send such a body
// without being asked. It is for everything but the Send API, which takes forms.
func (r *Request) RefuseForm(resp *Response) bool {
	if r.Method != http.MethodPost || len(r.ContentType) == 0 && len(r.Body) == 0 {
		return false
	}
	if kind, _, err := mime.ParseMediaType(string(r.ContentType)); err == nil && kind == "application/json" {
		return false
	}
	resp.WriteError(http.StatusUnsupportedMediaType, errNotJSON)
	return true
}
