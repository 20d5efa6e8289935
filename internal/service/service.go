// Package service runs a program's parts: settings from the environment, logging,
// signals, ordered shutdown, and the admin HTTP server with /metrics, /healthz
// and /readyz. It knows no program. It guarantees:
//
//   - A wrong setting stops a program at start, with one line that names every
//     fault.
//   - No secret is printed.
//   - No web page in an operator's browser changes anything by the admin server.
//   - No goroutine outlives the function that started it.
//
// A program's main is
//
//	func main() { os.Exit(service.Main(os.Stderr, run)) }
//
// where run loads its settings with [Load], opens what it needs and ends in
// [Run].
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Exit codes of every program.
const (
	ExitOK       = 0
	ExitFailure  = 1
	ExitSettings = 2 // as flag.ExitOnError and most Unix tools use it
)

// Main calls run with a context that SIGINT, SIGTERM or SIGHUP ends, and writes its
// error as one line to stderr, but for an Exit. It returns the exit code: 0 for nil and
// ErrPrinted, 2 for wrong settings, that of an Exit, otherwise 1. A reader of stderr that does
// not read keeps nothing from ending.
func Main(stderr io.Writer, run func(context.Context) error) int {
	ctx, stop := SignalContext(context.Background())
	defer stop()
	err := run(ctx)
	if err == nil || errors.Is(err, ErrPrinted) {
		return ExitOK
	}
	if code, ok := err.(Exit); ok { //nolint:errorlint // beside other errors these are written, and the code is 1
		return int(code)
	}
	printed := make(chan struct{})
	go func() {
		fmt.Fprintln(stderr, OneLine(err))
		close(printed)
	}()
	select {
	case <-printed:
	case <-time.After(lastLines):
	}
	if _, ok := errors.AsType[*SettingsError](err); ok {
		return ExitSettings
	}
	return ExitFailure
}

// stopSignals returns the signals that ask a program to end. SIGHUP does, which comes when
// a terminal is closed, unless the program was started with it ignored, as by nohup.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// SignalContext returns a context that ends at the first SIGINT, SIGTERM or SIGHUP. A
// second signal ends the process at once, as it would without this function.
func SignalContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, stopSignals()...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// sameSignal is the time after the first signal in which a second one is the same wish:
// timeout(1) and some supervisors send it to the process and to its group.
const sameSignal = 300 * time.Millisecond

// SecondSignal returns a context that ends at the second SIGINT, SIGTERM or SIGHUP from now
// on, for a program that takes its time after the first. A third ends the process at
// once. The caller must call stop.
func SecondSignal(parent context.Context) (again context.Context, stop func()) {
	again, cancel := context.WithCancel(context.WithoutCancel(parent))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stopSignals()...)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		awaitSecond(again, signals)
		signal.Stop(signals)
		cancel()
	}()
	return again, func() { cancel(); <-ended }
}

// awaitSecond returns when a second signal has come, or ctx has ended.
func awaitSecond(ctx context.Context, signals <-chan os.Signal) {
	var first time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		switch {
		case first.IsZero():
			first = time.Now()
		case time.Since(first) >= sameSignal:
			return
		}
	}
}

// OneLine returns the text of err with the line breaks of errors.Join replaced.
func OneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// Exit is the error of a program that has said all, and ends with this exit code.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
