package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"chatclub/tools/program"
)

// step is a command of a run.
type step struct {
	args []string
	env  []string
}

// drivers only drive other programs, so there is nothing to race.
func drivers() []string {
	return []string{"chatclub/internal/e2e", "chatclub/internal/browsertest", "chatclub/fakeapi/clienttest", "chatclub/loadtest/report"}
}

// simulations play minutes or hours of virtual time, each in one goroutine or in bubbles
// with few that run together: under the race detector they would take most of an hour.
func simulations() []string {
	return []string{
		"chatclub/internal/dispatch", "chatclub/loadtest/flow", "chatclub/internal/app", "chatclub/internal/sim", "chatclub/loadtest/trial",
		"chatclub/loadtest/articles", "chatclub/loadtest/strategy",
	}
}

// longest take longest, the longest first. A run that begins with them ends soonest.
func longest() []string {
	return []string{"chatclub/internal/e2e", "chatclub/internal/queue/rabbit", "chatclub/internal/browsertest", "chatclub/internal/dispatch", "chatclub/internal/rooms"}
}

// plan returns the commands that test packages, which run at once. The short form has no
// race detector: it needs a second build of all packages, and several times the processor
// time. The long form has it, where there is a C compiler, for all but the drivers and the
// simulations, which run one after another beside the others.
func plan(args []string, log io.Writer) ([]step, error) {
	long, timeout, flags, patterns, err := parse(args)
	if err != nil {
		return nil, err
	}
	all, err := goList(append([]string{"-f", "{{.ImportPath}}"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(turn(a), turn(b)) })
	// Little is alive in a test: the collector had a quarter of the processor time. The limit
	// makes a test binary collect its garbage in time, because several run at once.
	env := []string{"GOMEMLIMIT=512MiB", "GOGC=400"}
	flags = append([]string{"-vet=off", "-timeout", timeout}, flags...) // the linters vet
	if !long {                                                          // three test binaries at a time: two cores, and some wait
		return []step{{slices.Concat([]string{"go", "test", "-short", "-p=3"}, flags, all), env}}, nil
	}
	canRace := hasCompiler()
	if !canRace {
		_, _ = fmt.Fprintln(log, "test: no C compiler: tests run without the race detector")
	}
	var raced, plain, simulated []string
	for _, p := range all {
		switch {
		case slices.Contains(simulations(), p):
			simulated = append(simulated, p)
		case canRace && !slices.Contains(drivers(), p):
			raced = append(raced, p)
		default:
			plain = append(plain, p)
		}
	}
	plain = append(plain, simulated...)
	var list []step
	if len(raced) > 0 {
		// A program under the race detector sleeps for a second before it exits, in case a
		// goroutine that it left behind races. Our tests wait for theirs. SQLite only
		// computes: it is C translated to Go, which takes minutes to compile.
		list = append(list, step{
			slices.Concat([]string{"go", "test", "-race", "-gcflags=modernc.org/...=-race=false", "-p=2"}, flags, raced),
			append(env, "GORACE=atexit_sleep_ms=20"),
		})
	}
	if len(plain) > 0 {
		list = append(list, step{slices.Concat([]string{"go", "test", "-p=1"}, flags, plain), []string{"GOMEMLIMIT=2GiB", "GOGC=400"}})
	}
	return list, nil
}

// turn orders packages.
func turn(p string) int {
	if i := slices.Index(longest(), p); i >= 0 {
		return i
	}
	return len(longest())
}

// parse splits the arguments. What begins with a dash and is not ours is go test's,
// with its value behind "=".
func parse(args []string) (long bool, timeout string, flags, patterns []string, err error) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch name, value, has := strings.Cut(strings.TrimLeft(a, "-"), "="); {
		case !strings.HasPrefix(a, "-"):
			patterns = append(patterns, a)
		case name == "long" && !has:
			long = true
		case name == "timeout" && has:
			timeout = value
		case name == "timeout" && i+1 < len(args):
			i++
			timeout = args[i]
		case name == "timeout":
			return false, "", nil, nil, fmt.Errorf("%s needs a value", a)
		default:
			flags = append(flags, a)
		}
	}
	if timeout == "" {
		if timeout = "10m"; long {
			timeout = "50m"
		}
	}
	if len(patterns) == 0 {
		patterns = []string{"./...", "./loadtest/..."}
	}
	return long, timeout, flags, patterns, nil
}

// goList returns the lines of go list.
func goList(args ...string) ([]string, error) {
	r, err := program.Run(context.Background(), program.Command{Path: "go", Args: append([]string{"list"}, args...)})
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return strings.Fields(r.Stdout), nil
}

// hasCompiler reports whether cgo works, which the race detector needs.
func hasCompiler() bool {
	r, err := program.Run(context.Background(), program.Command{Path: "go", Args: []string{"env", "CGO_ENABLED", "CC"}})
	enabled, compiler, _ := strings.Cut(strings.TrimSpace(r.Stdout), "\n")
	if err != nil || enabled != "1" {
		return false
	}
	_, err = program.Find(compiler)
	return err == nil
}
