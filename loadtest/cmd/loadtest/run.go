package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"chatclub/internal/service"
	"chatclub/loadtest/peer"
	"chatclub/loadtest/report"
	"chatclub/loadtest/scenario"
	"chatclub/loadtest/strategy"
)

// streams are the process's.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

const usage = `loadtest puts chatclub's dispatchers, and other ways of sharing a limit, to the test.

  loadtest list                        the scenarios and the strategies
  loadtest run SCENARIO… [flags]       run scenarios with chatclub's dispatcher
  loadtest compare SCENARIO [flags]    run a scenario with every strategy, one after another
  loadtest faults [flags]              make a whole deployment fail, and judge what each fault costs

  loadtest run SCENARIO -h             the flags, with the scenario's own defaults
  loadtest -version                    what this program was built from

Flags may stand before or behind names. Exit codes of run, compare
and faults:

  0  PASS: chatclub did all that the scenario expects
  1  FAIL: it did not, or messages were lost; or an error
  2  wrong usage
  3  NO VERDICT: the runs prove nothing, as on a busy machine, or were stopped
`

// exitNoVerdict is neither success nor failure: nothing was proven.
const exitNoVerdict = 3

// usageError is the caller's fault: exit code 2.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	code, err := command(ctx, args, s)
	switch {
	case err == nil:
		return code
	case errors.Is(err, flag.ErrHelp):
		return service.ExitOK
	}
	fmt.Fprintln(s.err, "loadtest:", service.OneLine(err))
	if _, wrong := errors.AsType[usageError](err); wrong {
		return service.ExitSettings
	}
	return service.ExitFailure
}

// exitCode is that of a verdict.
func exitCode(o report.Outcome) int {
	switch o {
	case report.Pass:
		return service.ExitOK
	case report.Fail:
		return service.ExitFailure
	case report.NoVerdict:
	}
	return exitNoVerdict
}

// worse returns the exit code of the worse of two verdicts.
func worse(a, b int) int {
	if a == service.ExitFailure || b == service.ExitFailure {
		return service.ExitFailure
	}
	return max(a, b)
}

// command runs what the first argument says. Where err is nil, code is the exit
// code.
func command(ctx context.Context, args []string, s streams) (code int, err error) {
	if len(args) == 0 {
		fmt.Fprint(s.err, usage)
		return 0, usagef("no command")
	}
	name, args := args[0], args[1:]
	switch name {
	case "-version", "--version":
		fmt.Fprintln(s.out, service.Version("loadtest"))
		return service.ExitOK, nil
	case "list":
		if asksHelp(args) {
			fmt.Fprint(s.out, usage)
			return service.ExitOK, nil
		}
		if len(args) > 0 {
			return 0, usagef("list: unexpected argument %.40q", args[0])
		}
		return service.ExitOK, list(s.out)
	case "run":
		return runScenarios(ctx, args, s)
	case "compare":
		return compareScenario(ctx, args, s)
	case "faults":
		return makeFaults(ctx, args, s)
	case "-h", "-help", "--help", "help":
		fmt.Fprint(s.out, usage)
		return service.ExitOK, nil
	}
	if child, ok := children()[name]; ok {
		return service.ExitOK, child(ctx, args, s)
	}
	return 0, usagef("%.40q is none of list, run, compare and faults", name)
}

// list prints both tables, and how long each scenario takes.
func list(w io.Writer) error {
	var b strings.Builder
	b.WriteString("start with: loadtest run saturate -out out/saturate\n\nscenarios:\n")
	for _, x := range scenario.All() {
		_, build := x.Flags(flag.NewFlagSet(x.Name, flag.ContinueOnError))
		set, err := build()
		if err != nil {
			return fmt.Errorf("list %s: %w", x.Name, err)
		}
		takes := "run: about " + clock(set.Takes(1))
		if !x.OwnOnly {
			takes += ", compare: about " + clock(set.Takes(len(strategy.All())))
		}
		fmt.Fprintf(&b, "  %-18s %s\n  %-18s %s\n  %-18s from: %s\n", x.Name, x.Title, "", takes, "", x.Source)
	}
	b.WriteString("\nstrategies:\n")
	for _, x := range strategy.All() {
		needs := ""
		if x.NeedsRedis {
			needs = " (needs Redis)"
		}
		fmt.Fprintf(&b, "  %-18s %s%s\n", x.Name, x.Source, needs)
	}
	if others, err := peer.Find(peer.Everyone); err == nil { // they are there in the project's folder
		b.WriteString("\npeers (-peers):\n")
		for _, x := range others {
			fmt.Fprintf(&b, "  %-18s %s\n", x.Name, x.Source)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// parseFlags parses the flags of a command that is of no scenario. For -h it prints
// how the command is called, and them, and returns flag.ErrHelp.
func parseFlags(fs *flag.FlagSet, args []string, call string, help io.Writer) error {
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(help, "loadtest %s\n\n", call)
		fs.SetOutput(help)
		fs.PrintDefaults()
		return err
	case err != nil:
		return usageError{fmt.Errorf("%s: %w", fs.Name(), err)}
	}
	return nil
}

// split parts names from flags and their values, in whichever order they come.
// Of the flags it knows only which are switches: those have no value.
func split(args []string, switches func(name string) bool) (names, flags []string) {
	value := false // the next word is one
	for i, a := range args {
		switch name, _, joined := strings.Cut(strings.TrimLeft(a, "-"), "="); {
		case value:
			flags, value = append(flags, a), false
		case a == "--":
			return append(names, args[i+1:]...), flags
		case strings.HasPrefix(a, "-") && a != "-":
			flags, value = append(flags, a), !joined && !switches(name)
		default:
			names = append(names, a)
		}
	}
	return names, flags
}

// switches tells which names are of flags without a value.
func switches(sets ...*flag.FlagSet) func(name string) bool {
	known := map[string]bool{"h": true, "help": true}
	for _, fs := range sets {
		fs.VisitAll(func(f *flag.Flag) {
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
				known[f.Name] = true
			}
		})
	}
	return func(name string) bool { return known[name] }
}

// splitScenarios is split for commands on scenarios, whose flags are of all.
func splitScenarios(args []string) (names, flags []string) {
	sets := []*flag.FlagSet{newFlags("", "", io.Discard)}
	for _, x := range scenario.All() {
		fs := newFlags(x.Name, "", io.Discard)
		x.Flags(fs)
		sets = append(sets, fs)
	}
	return split(args, switches(sets...))
}

// newFlags has this program's own.
func newFlags(name, strategies string, w io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(w)
	new(options).add(fs, strategies)
	return fs
}

func asksHelp(flags []string) bool {
	return slices.ContainsFunc(flags, func(f string) bool {
		name := strings.TrimLeft(f, "-")
		return name != f && (name == "h" || name == "help")
	})
}

// commonHelp is what -h says where no scenario is named.
func commonHelp(w io.Writer, strategies string) {
	fmt.Fprintf(w, "%s\nThe flags that scenarios have in common:\n\n", usage)
	fs := newFlags("", strategies, w)
	scenario.CommonFlags(fs)
	fs.PrintDefaults()
}

// findScenario names what there is when there is none of that name.
func findScenario(name string) (scenario.Scenario, error) {
	s, ok := scenario.Find(name)
	if ok {
		return s, nil
	}
	var names []string
	for _, x := range scenario.All() {
		names = append(names, x.Name)
	}
	return s, usagef("scenario %.40q is none of %s", name, strings.Join(names, ", "))
}
