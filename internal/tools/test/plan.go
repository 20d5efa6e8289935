package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// step is a command of a run.
type step struct {
	args []string
	env  []string
}

// What the short form runs without the race detector beside drivers and simulations,
// and the long form with it. sqlite only computes: it is C translated to Go. Compiling it takes minutes,
// and twice as long where the detector's form is wanted, too. So this goes for all
// packages that have it in them. engine takes five times as long with the detector.
const (
	sqlite = "modernc.org/sqlite"
	engine = "chatclub/internal/dispatch"
)

// drivers only drive other programs, so there is nothing to race. They come first,
// because they wait for most of their time.
func drivers() []string {
	return []string{"chatclub/internal/e2e", "chatclub/internal/browsertest", "chatclub/fakeapi/clienttest", "chatclub/loadtest/report"}
}

// simulations judge figures of thousands of calls in virtual time, which takes five to
// seven times the processor time under the race detector. The long form has it on, for
// the smaller runs that they make then.
func simulations() []string {
	return []string{"chatclub/internal/aimd", "chatclub/internal/excess", "chatclub/loadtest/flow", "chatclub/loadtest/scenario"}
}

// plan returns the commands that test packages, which run at once: both wait for servers
// and programs much of their time. The race detector needs a C compiler. Where there is
// none, all run without it.
func plan(args []string, log io.Writer) ([]step, error) {
	long, timeout, flags, patterns, err := parse(args)
	if err != nil {
		return nil, err
	}
	all, err := goList(append([]string{"-f", "{{.ImportPath}}"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var race []string
	if hasCompiler() {
		race = []string{"-race", "-gcflags=modernc.org/...=-race=false"}
	} else {
		_, _ = fmt.Fprintln(log, "test: no C compiler: tests run without the race detector")
	}
	// A program under the race detector sleeps for a second before it exits, in case a
	// goroutine that it left behind races. Our tests wait for theirs. The limit makes a
	// test binary collect its garbage in time: two run at once.
	env := []string{"GORACE=atexit_sleep_ms=20", "GOMEMLIMIT=768MiB"}
	test := func(flags, packages []string) step {
		return step{args: slices.Concat([]string{"go", "test"}, flags, packages), env: env}
	}
	flags = append([]string{"-timeout", timeout}, flags...)
	plain := all
	switch {
	case race == nil:
	case long:
		plain = withoutRace(all, drivers())
	default:
		heavy, err := goList(append([]string{"-test", "-f", `{{range .Deps}}{{if eq . "` + sqlite + `"}}{{$.ImportPath}}{{end}}{{end}}`}, patterns...)...)
		if err != nil {
			return nil, err
		}
		plain = withoutRace(all, slices.Concat(heavy, drivers(), simulations(), []string{engine}))
	}
	racedWide, plainWide := "-p=2", "-p=1" // three test binaries at a time: two cores, and some wait
	if !long {
		flags = append(flags, "-short")
		racedWide, plainWide = plainWide, racedWide // little is raced
	}
	raced := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(plain, p) })
	var list []step
	if len(raced) > 0 {
		list = append(list, test(slices.Concat(flags, []string{racedWide}, race), raced))
	}
	if len(plain) > 0 {
		slices.SortStableFunc(plain, func(a, b string) int { return cmp.Compare(turn(a), turn(b)) })
		list = append(list, test(append(flags, plainWide), plain))
	}
	return list, nil
}

// turn orders packages: drivers come first.
func turn(p string) int {
	if slices.Contains(drivers(), p) {
		return 0
	}
	return 1
}

// withoutRace returns those of all that run without the race detector. Those of heavy are
// packages, or test binaries as go list names them: "p.test", or "p [p.test]" for a
// package that is compiled for its own test.
func withoutRace(all, heavy []string) (plain []string) {
	for _, p := range all {
		if slices.ContainsFunc(heavy, func(h string) bool {
			return h == p+".test" || h == p || strings.HasPrefix(h, p+" [") || strings.HasPrefix(h, p+"_test [")
		}) {
			plain = append(plain, p)
		}
	}
	return plain
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
	var stderr bytes.Buffer
	cmd := exec.Command("go", append([]string{"list"}, args...)...) //nolint:gosec,noctx // it takes a second
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(l string) bool { return l == "" }), nil
}

// hasCompiler reports whether cgo works, which the race detector needs.
func hasCompiler() bool {
	out, err := exec.Command("go", "env", "CGO_ENABLED", "CC").Output() //nolint:noctx // it takes a moment
	enabled, compiler, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || enabled != "1" {
		return false
	}
	_, err = exec.LookPath(compiler)
	return err == nil
}
