// Command withservers runs a command with servers to test on: a RabbitMQ, a
// PostgreSQL and a Chromium. It ends those that it started when the command has
// ended.
//
//	go run ./internal/tools/withservers go test -race ./...
//
// It finds or starts them as packages rabbittest and roomstest do, so that the
// test binaries of a run share them. Their addresses are in AMQP_URL and
// TEST_DATABASE_URL. The browser is named in CHROMIUM; as root on Debian it is
// installed. When one cannot be had, withservers says why and still runs the
// command: the tests that need it fail with that sentence, all others run.
//
// Its exit code is the command's. It passes SIGINT and SIGTERM on, and waits.
// When the command fails, it says in a line whether the machine was starved
// meanwhile, as package stall measures it. A time bound that failed then shows
// no defect.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/rooms/roomstest"
	"chatclub/internal/tools/stall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// findTimeout bounds the search, which may install a package and boot twice.
const findTimeout = 10 * time.Minute

// run returns the command's exit code, or 128 plus the number of the signal that
// ended it. It is 2 for a wrong call and 126 when the command cannot be run.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		_, _ = fmt.Fprintln(stderr, "usage: withservers command [argument ...]")
		return 2
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // running it is what we are for; signals end it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	env, chromium, stop, ok := broker(stderr, signals)
	defer stop()
	if !ok {
		return 128 + int(syscall.SIGINT)
	}
	database, stopDatabase := database(stderr)
	defer stopDatabase()
	cmd.Env = append(os.Environ(), env, chromium, database)
	meter := stall.Start()
	defer meter.Stop()
	if err := cmd.Start(); err != nil {
		_, _ = fmt.Fprintf(stderr, "withservers: run %s: %v\n", args[0], err)
		return 126
	}
	ended := make(chan struct{})
	passing := make(chan struct{})
	go func() {
		defer close(passing)
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s) // it may have ended meanwhile
			case <-ended:
				return
			}
		}
	}()
	err := cmd.Wait()
	close(ended)
	<-passing
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "withservers: the command failed; %v\n", meter)
	}
	return exitCode(err, stderr)
}

// broker returns the settings that name the broker and the browser, and the
// function that ends the broker. It is not ok when a signal ended the search.
func broker(log io.Writer, signals <-chan os.Signal) (env, chromium string, stop func(), ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
	defer cancel()
	found := make(chan struct{})
	interrupted := make(chan bool)
	go func() {
		select {
		case <-signals:
			cancel()
			interrupted <- true
		case <-found:
			interrupted <- false
		}
	}()
	url, stop, err := rabbittest.Find(ctx, log)
	chromium = browser(ctx, log)
	close(found)
	ok = !<-interrupted
	if err != nil {
		_, _ = fmt.Fprintf(log, "withservers: %v\n", err)
		return rabbittest.NoBroker + "=" + err.Error(), chromium, func() {}, ok
	}
	return "AMQP_URL=" + url, chromium, stop, ok
}

// database returns the setting that names PostgreSQL, and the function that ends
// it. Without one the setting is empty: each test that needs it looks for itself,
// and says why there is none.
func database(log io.Writer) (env string, stop func()) {
	url, end, err := roomstest.Find()
	if err != nil {
		_, _ = fmt.Fprintf(log, "withservers: no PostgreSQL: %v\n", err)
		return roomstest.URLVariable + "=", func() {}
	}
	return roomstest.URLVariable + "=" + url, func() { _ = end() } // its guardian ends it in any case
}

// exitCode turns what Wait returned into an exit code.
func exitCode(err error, stderr io.Writer) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		_, _ = fmt.Fprintf(stderr, "withservers: %v\n", err)
		return 126
	case exit.ExitCode() < 0: // ended by a signal
		if status, ok := exit.Sys().(syscall.WaitStatus); ok {
			return 128 + int(status.Signal())
		}
		return 1
	}
	return exit.ExitCode()
}
