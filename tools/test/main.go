// Command test runs the tests of chatclub. It needs nothing but Go:
//
//	go run ./tools/test [-long] [-timeout 10m] [go test's flag ...] [package ...]
//	go run ./tools/test exec command [argument ...]
//
// Without packages it runs all of them, the long tests in a short form unless -long
// is given. It finds or starts a RabbitMQ, a PostgreSQL and a Chromium, as packages
// rabbittest and roomstest do, so that the test binaries of a run share them, and ends
// those that it started. As root on Debian it installs what is missing first, and says
// so. When one cannot be had it says why: the tests that need it fail with that
// sentence, all others run. exec runs any command with the same servers.
//
// The addresses are in AMQP_URL and TEST_DATABASE_URL, the browser is in CHROMIUM.
// SIGINT and SIGTERM are passed on. The exit code is the command's.
//
// The last line says how long it took, and whether the machine was starved meanwhile. A
// time bound that failed then shows no defect.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/rooms/roomstest"
	"chatclub/tools/stall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// findTimeout bounds the search, which may install a package and boot twice.
const findTimeout = 10 * time.Minute

// run returns the command's exit code, or 128 plus the number of the signal that
// ended it. It is 2 for a wrong call and 126 when the command cannot be run.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var list []step
	var err error
	if len(args) > 0 && args[0] == "exec" {
		list = []step{{args: args[1:]}}
	} else {
		list, err = plan(args, stderr)
	}
	if err != nil || len(list[0].args) == 0 {
		_, _ = fmt.Fprintln(stderr, "usage: test [-long] [-timeout d] [flag of go test ...] [package ...] or test exec command [argument ...]")
		if err != nil {
			_, _ = fmt.Fprintf(stderr, "test: %v\n", err)
		}
		return 2
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	env, chromium, stop, ok := broker(stderr, signals)
	defer stop()
	if !ok {
		return 128 + int(syscall.SIGINT)
	}
	database, stopDatabase := database(stderr)
	defer stopDatabase()

	began := time.Now()
	machine := stall.Start()
	code := await(commands(list, []string{env, chromium, database}, stdin, stdout, stderr), signals, stderr)
	machine.Stop()
	_, _ = fmt.Fprintf(stderr, "test: exit code %d after %v; %v\n", code, time.Since(began).Round(time.Second), machine)
	return code
}

// commands returns the commands of the steps, with the servers in their environment.
func commands(list []step, servers []string, stdin io.Reader, stdout, stderr io.Writer) (cmds []*exec.Cmd) {
	for _, s := range list {
		cmd := exec.Command(s.args[0], s.args[1:]...) //nolint:noctx // running it is what we are for; signals end it
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		cmd.Env = slices.Concat(os.Environ(), servers, s.env)
		cmds = append(cmds, cmd)
	}
	return cmds
}

// await runs commands at once and passes signals on. It returns the highest exit code.
func await(cmds []*exec.Cmd, signals <-chan os.Signal, stderr io.Writer) (code int) {
	codes := make(chan int)
	running := 0
	for _, cmd := range cmds {
		if err := cmd.Start(); err != nil {
			_, _ = fmt.Fprintf(stderr, "test: run %s: %v\n", cmd.Path, err)
			code = 126
			break
		}
		running++
		go func() { codes <- exitCode(cmd.Wait(), stderr) }()
	}
	for running > 0 {
		select {
		case s := <-signals:
			for _, cmd := range cmds {
				if cmd.Process != nil {
					_ = cmd.Process.Signal(s) // it may have ended meanwhile
				}
			}
		case c := <-codes:
			running--
			code = max(code, c)
		}
	}
	return code
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
		_, _ = fmt.Fprintf(log, "test: %v\n", err)
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
		_, _ = fmt.Fprintf(log, "test: no PostgreSQL: %v\n", err)
		return roomstest.URLVariable + "=", func() {}
	}
	return roomstest.URLVariable + "=" + url, func() { _ = end() } // its guardian ends it in any case
}

// exitCode turns Wait's error into an exit code.
func exitCode(err error, stderr io.Writer) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		_, _ = fmt.Fprintf(stderr, "test: %v\n", err)
		return 126
	case exit.ExitCode() < 0: // ended by a signal
		if status, ok := exit.Sys().(syscall.WaitStatus); ok {
			return 128 + int(status.Signal())
		}
		return 1
	}
	return exit.ExitCode()
}
