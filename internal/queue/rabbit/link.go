package rabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

// The two links of a Broker, as metrics and logs name them.
const (
	publishing = "publish"
	consuming  = "consume"
)

const (
	// minBackoff and maxBackoff bound the pause before the next connection:
	// short enough that a restarted broker is found at once and Messenger's retry
	// finds it too, long enough that many replicas do not keep a struggling one
	// from starting: a hundred of them, with two links each, make some 130 attempts
	// a second.
	minBackoff = 200 * time.Millisecond
	maxBackoff = 2 * time.Second
	// closeTimeout bounds the polite end of a consumer, a channel and a connection; a
	// healthy broker answers within milliseconds, a blocked one never.
	closeTimeout = 2 * time.Second
)

// errStalled says that a session was given up without an error of the broker.
var errStalled = errors.New("broker stalled")

// errSilent says that a session was given up because of the other link's.
var errSilent = errors.New("broker does not answer on the other connection")

// link keeps one connection to the broker up: it owns the current session and
// makes the next when that one ends. Make it with newLink. Safe for concurrent
// use, but run only once.
type link struct {
	kind    string
	cfg     Config
	metrics *metrics
	// setup does what this link needs of a new connection, given the error that
	// ended the last one.
	setup func(s *session, last error) error
	// silent is called when a session ends because the broker does not answer.
	silent func()

	patience patience // of the current session; run's own

	mu      sync.Mutex
	current *session
	blocked string        // why the broker does not read, "" while it does
	fault   error         // why there is no session
	changed chan struct{} // closed and replaced whenever the above change
}

// newLink makes a link whose sessions have this patience.
func newLink(kind string, cfg Config, p patience, m *metrics, setup func(*session, error) error) *link {
	return &link{
		kind: kind, cfg: cfg, metrics: m, setup: setup, patience: p,
		silent: func() {}, fault: errors.New("not connected yet"), changed: make(chan struct{}),
	}
}

// run keeps the connection up until ctx ends, and returns when everything of
// the last session has ended.
func (l *link) run(ctx context.Context) {
	failures, established := 0, 0
	var logged loss
	var last error // that ended the last session
	for attempt := 0; ctx.Err() == nil; attempt++ {
		url := l.cfg.URLs[attempt%len(l.cfg.URLs)]
		start, before := time.Now(), established
		err := l.serve(ctx, url, last, &established)
		if ctx.Err() != nil {
			break
		}
		// A session that lasted longer than the longest pause was a good one.
		if time.Since(start) > maxBackoff {
			failures = 0
		}
		failures++
		if established > before { // another node that is down says nothing about this one
			last, l.patience = err, l.patience.after(err, time.Since(start))
		}
		pause := pauseAfter(failures)
		if l.cfg.Useless != nil && isUseless(err) {
			l.cfg.Useless(err)
		} else {
			logged = l.logLoss(logged, loss{url: url, text: err.Error(), at: time.Now()}, err, pause)
		}
		backoff.Sleep(ctx, pause)
	}
	l.set(func() { l.current, l.fault = nil, queue.ErrClosed })
}

// serve connects to one URL and returns when that session has ended, with the
// reason. last is the one before it's.
func (l *link) serve(ctx context.Context, url string, last error, established *int) error {
	conn, raw, err := dial(ctx, url, l.cfg.Name+"/"+l.kind, l.cfg.Heartbeat)
	if err != nil {
		l.set(func() { l.fault = err })
		return err
	}
	s := newSession(conn, raw)
	// A broker that stops answering during the set-up is found by the
	// heartbeat; one that ctx ends does not wait for it.
	stop := context.AfterFunc(ctx, func() { s.drop(queue.ErrClosed) })
	err = l.setup(s, last)
	if !stop() && err == nil {
		err = queue.ErrClosed
	}
	if err != nil {
		s.drop(err)
		s.wait()
		l.set(func() { l.fault = err })
		return err
	}
	if *established++; *established > 1 {
		l.metrics.reconnects.WithLabelValues(l.kind).Inc()
	} else if l.kind == consuming && keepsConsumers(s.conn.Properties) {
		l.cfg.Log.Warn("RabbitMQ 4.3 may deliver a partition to nobody, for 20 minutes at most, after a program was killed while it handed that over: see docs/operate.md")
	}
	l.metrics.connected.WithLabelValues(l.kind).Set(1)
	l.cfg.Log.Info("broker connected", "connection", l.kind, "address", address(url))
	l.set(func() { l.current, l.fault = s, nil })

	err = l.watch(ctx, s)

	l.metrics.connected.WithLabelValues(l.kind).Set(0)
	l.set(func() { l.current, l.fault = nil, err })
	l.setBlocked("", s)
	s.wait()
	return err
}

// watch returns when s has ended, with the reason.
func (l *link) watch(ctx context.Context, s *session) error {
	// Stalls are noticed within a sixteenth more than the patience.
	tick := time.NewTicker(l.patience.silent / 16)
	defer tick.Stop()
	looked := time.Now()
	blocks := s.blocks
	for {
		select {
		case <-s.lost:
			return s.cause
		case err := <-s.closes:
			s.drop(lossOf(err))
		case err := <-s.channelCloses:
			s.drop(lossOf(err))
		case b, ok := <-blocks:
			switch {
			case !ok:
				blocks = nil // closed with the connection; closes tells why
			case b.Active:
				l.setBlocked("broker blocked: "+b.Reason, s)
			default:
				l.setBlocked("", s)
			}
		case <-tick.C:
			if time.Since(looked) > l.patience.silent/2 {
				s.excuse() // this process was paused, or starved: what came is yet to be read
			}
			looked = time.Now()
			l.checkStall(s)
		case <-ctx.Done():
			s.close()
		}
	}
}

// checkStall ends a session whose broker is silent.
func (l *link) checkStall(s *session) {
	if s.writer != nil && !l.isBlocked() {
		if err := s.writer.progress.stalled(l.patience, s.writer.unconfirmed.Load() > 0); err != nil {
			s.drop(err)
		}
	}
	if s.prober != nil && s.prober.stalled(l.patience.silent) {
		s.drop(fmt.Errorf("%w: no answer for %s", errStalled, l.patience.silent))
		l.silent()
	}
}

// leave ends the session if the broker has confirmed nothing on it for so long:
// it is silent on another connection.
func (l *link) leave(quiet time.Duration) {
	l.mu.Lock()
	s := l.current
	l.mu.Unlock()
	if s != nil && s.writer.progress.isQuiet(quiet) {
		s.drop(errSilent)
	}
}

// lossOf turns what a Notify channel gave into an error.
func lossOf(err *amqp.Error) error {
	if err == nil { // the Notify channel was closed without a word
		return errors.New("connection closed")
	}
	return explain(err)
}

// loss is a failure as it was logged.
type loss struct {
	url, text string
	at        time.Time
}

// remindEvery is the interval at which a failure that stays the same is logged at
// full level: a broker that is down for a night fills no disk, and whoever
// looks at the last minute sees it.
const remindEvery = time.Minute

// logLoss logs a failure: one that was logged before at debug only. It returns
// what was logged last.
func (l *link) logLoss(last, now loss, err error, pause time.Duration) loss {
	log := l.cfg.Log.Warn
	switch {
	case last.url == now.url && last.text == now.text && now.at.Sub(last.at) < remindEvery:
		log, now.at = l.cfg.Log.Debug, last.at
	case isRefusal(err), isUseless(err):
		log = l.cfg.Log.Error
	}
	log("broker connection lost", "connection", l.kind, "address", address(now.url), "retry_in", pause, "err", err)
	return now
}

// pauseAfter returns the pause after so many failures in a row: it doubles from
// minBackoff to maxBackoff, less up to half so that replicas spread.
func pauseAfter(failures int) time.Duration {
	return backoff.Policy{Min: minBackoff, Max: maxBackoff, Low: 0.5, High: 1}.Delay(failures)
}

// set changes the guarded state and wakes everybody who waits for a change.
func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// setBlocked notes whether the broker reads from s, with the reason when it
// does not. It concerns publishing only.
func (l *link) setBlocked(reason string, s *session) {
	if s.writer == nil {
		return
	}
	switch was := l.isBlocked(); {
	case was && reason == "":
		s.writer.progress.touch() // the alarm kept back its confirms: that was no stall
		l.metrics.blocked.Set(0)
		l.cfg.Log.Info("broker unblocked")
	case !was && reason != "":
		l.metrics.blocked.Set(1)
		l.cfg.Log.Warn("broker blocked", "reason", reason)
	}
	l.set(func() { l.blocked = reason }) // whoever sees it finds the gauge set
}

func (l *link) isBlocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blocked != ""
}

// ready returns nil while there is a session and the broker reads from it.
func (l *link) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.current == nil:
		return fmt.Errorf("%s connection: %w", l.kind, public(l.fault))
	case l.current.isLost():
		return fmt.Errorf("%s connection: %w", l.kind, public(l.current.cause))
	case l.blocked != "":
		return fmt.Errorf("%s connection: %s", l.kind, l.blocked)
	case l.current.prober != nil && l.current.prober.isSilent():
		return fmt.Errorf("%s connection: no answer for %s", l.kind, l.current.prober.silence().Round(100*time.Millisecond))
	}
	return nil
}

// public returns what everybody may read of a failure, because /readyz is open to all:
// no address, and no user. The log has the whole.
func public(err error) error {
	if refused, ok := errors.AsType[*amqp.Error](err); ok && (refused.Code == amqp.AccessRefused || refused.Code == amqp.NotAllowed) { // it names the user
		return fmt.Errorf("the broker answers %d", refused.Code)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("the broker's name cannot be looked up")
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return errors.New("the broker's certificate is refused")
	}
	if network, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", network.Op, network.Err)
	}
	return err
}

// isSilent reports whether there is no session on which the broker answers.
func (l *link) isSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current == nil || l.current.isLost() || l.current.prober.isSilent()
}

// session waits for a session that is up and not blocked. When ctx or closing
// ends first it says what was missing.
func (l *link) session(ctx context.Context, closing <-chan struct{}) (*session, error) {
	for {
		l.mu.Lock()
		s, changed := l.current, l.changed
		usable := s != nil && !s.isLost() && l.blocked == ""
		l.mu.Unlock()
		select {
		case <-closing:
			return nil, queue.ErrClosed
		default:
		}
		if usable {
			return s, nil
		}
		select {
		case <-changed:
		case <-closing:
			return nil, queue.ErrClosed
		case <-ctx.Done():
			if err := l.ready(); err != nil {
				return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
			}
			return nil, context.Cause(ctx)
		}
	}
}
