package service

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The checks below are for Validate methods: each returns nil or a *Fault that
// names the setting.

// CheckAddr wants host:port or :port.
func CheckAddr(name, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Faultf(name, "%.80q is not an address such as :8080 or 127.0.0.1:8080", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return Faultf(name, "port %.20q must be 0 to 65535", port)
	}
	return nil
}

// CheckRange wants low ≤ n ≤ high.
func CheckRange[T int | float64](name string, n, low, high T) error {
	if n >= low && n <= high { // NaN is not
		return nil
	}
	return Faultf(name, "%v must be %v to %v", n, low, high)
}

// CheckDuration wants low ≤ d ≤ high.
func CheckDuration(name string, d, low, high time.Duration) error {
	if d < low || d > high {
		return Faultf(name, "%s must be %s to %s", short(d), short(low), short(high))
	}
	return nil
}

// short returns d without the units at its end that are zero: 24h, not 24h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if rest, ok := strings.CutSuffix(s, "m0s"); ok {
		s = rest + "m"
	}
	if rest, ok := strings.CutSuffix(s, "h0m"); ok {
		s = rest + "h"
	}
	return s
}

// CheckHTTPURL wants an absolute http or https address without query.
func CheckHTTPURL(name, raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return Faultf(name, "must be an address such as https://host/path, without user, query or fragment")
	}
	return nil
}

// CheckHTTPURLs is CheckHTTPURL for a list, which may be empty.
func CheckHTTPURLs(name string, list []string) error {
	var errs []error
	for _, raw := range list {
		errs = append(errs, CheckHTTPURL(name, raw))
	}
	return errors.Join(errs...)
}

// CheckSet wants a secret that is not empty.
func CheckSet(name string, s Secret) error {
	if s == "" {
		return Faultf(name, "must be set")
	}
	return nil
}

// minToken is the shortest token: 16 random letters and digits cannot be guessed by those
// who may try for years.
const minToken = 16

// CheckToken wants a secret of 16 characters at least that can stand in a header, or none.
func CheckToken(name string, s Secret) error {
	if s == "" {
		return nil
	}
	if strings.ContainsFunc(s.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Faultf(name, "must be of ASCII characters without white space")
	}
	if len(s) < minToken {
		return Faultf(name, "must have %d characters at least, such as those of: openssl rand -hex 16", minToken)
	}
	return nil
}
