package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"chatclub/internal/loadtest/scenario"
	"chatclub/internal/loadtest/strategy"
	"chatclub/internal/service"
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
  loadtest report DIR… [flags]         merge the reports in folders into one

  loadtest run SCENARIO -h             the flags, with the scenario's own defaults
  loadtest -version                    what this program was built from

Flags may stand before or behind names.
`

// usageError is the caller's fault: exit code 2.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errNotMet is how a run ends that found something wrong: exit code 1. What it
// was has been printed.
var errNotMet = errors.New("not as expected")

// run returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	err := command(ctx, args, s)
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return service.ExitOK
	case errors.As(err, &wrong):
		fmt.Fprintln(s.err, "loadtest:", service.OneLine(err))
		return service.ExitSettings
	}
	fmt.Fprintln(s.err, "loadtest:", service.OneLine(err))
	return service.ExitFailure
}

func command(ctx context.Context, args []string, s streams) error {
	if len(args) == 0 {
		fmt.Fprint(s.err, usage)
		return usagef("no command")
	}
	name, args := args[0], args[1:]
	switch name {
	case "-version", "--version":
		fmt.Fprintln(s.out, service.Version("loadtest"))
		return nil
	case "list":
		if asksHelp(args) {
			fmt.Fprint(s.out, usage)
			return nil
		}
		if len(args) > 0 {
			return usagef("list: unexpected argument %.40q", args[0])
		}
		return list(s.out)
	case "run":
		return runScenarios(ctx, args, s)
	case "compare":
		return compareScenario(ctx, args, s)
	case "report":
		return mergeReports(args, s)
	case "-h", "-help", "--help", "help":
		fmt.Fprint(s.out, usage)
		return nil
	}
	if child, ok := children()[name]; ok {
		return child(ctx, args, s)
	}
	return usagef("%.40q is none of list, run, compare and report", name)
}

// list prints both tables.
func list(w io.Writer) error {
	var b strings.Builder
	b.WriteString("scenarios:\n")
	for _, x := range scenario.All() {
		fmt.Fprintf(&b, "  %-18s %s\n  %-18s from: %s\n", x.Name, x.Title, "", x.Source)
	}
	b.WriteString("\nstrategies:\n")
	for _, x := range strategy.All() {
		needs := ""
		if x.NeedsRedis {
			needs = " (needs Redis)"
		}
		fmt.Fprintf(&b, "  %-18s %s%s\n", x.Name, x.Source, needs)
	}
	_, err := io.WriteString(w, b.String())
	return err
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
