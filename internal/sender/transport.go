package sender

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// idleTimeout is below the 60 to 75 s after which common servers close an
	// idle connection. So we close it first, and write no call to a connection
	// that the server is about to close.
	idleTimeout = 30 * time.Second
	// maxHeaderBytes bounds an answer's header; the platform's has about 1 KiB.
	maxHeaderBytes = 64 << 10
)

// newTransport makes a transport for one host and up to cfg.MaxInFlight calls at
// a time, each of which keeps its connection. With net/http's default of two
// idle connections nearly every call would dial.
//
// It speaks HTTP/1.1, one call a connection: a connection lost under HTTP/2
// would make every call on it ambiguous at once. There is no separate time-out
// for the answer's header, because the call's deadline covers all of it.
func newTransport(cfg Config, base *url.URL) (*http.Transport, error) {
	// Asked now, because the transport's own error would quote the setting,
	// which may hold a password, with every call.
	if _, err := http.ProxyFromEnvironment(&http.Request{URL: base}); err != nil {
		return nil, errors.New("HTTP_PROXY or HTTPS_PROXY is not a URL")
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: checkProxy,
		DialContext:            (&net.Dialer{Timeout: cfg.CallTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    cfg.CallTimeout,
		Protocols:              &protocols,
		DisableCompression:     true, // answers have 100 bytes
		MaxIdleConns:           cfg.MaxInFlight,
		MaxIdleConnsPerHost:    cfg.MaxInFlight,
		MaxConnsPerHost:        cfg.MaxInFlight,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}, nil
}

// checkProxy names the proxy that refuses a connection: its words alone read like the API's.
func checkProxy(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the proxy %s refuses the connection: %s", proxy.Host, answer.Status)
	}
	return nil
}
