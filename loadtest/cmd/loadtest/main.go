// Command loadtest drives the system at a set pace, lets fakeapi judge it, and
// writes down what was found, side by side with other ways of sharing a limit:
//
//	loadtest list
//	loadtest run CASE [flags]
//	loadtest compare CASE [flags]
//	loadtest articles [NAME] [flags]
//	loadtest faults [flags]
//	loadtest evidence [flags]
//	loadtest report FOLDER
//
// It exits with 1 if messages were lost, or an expectation of this project's
// own dispatcher was not met, with 2 for wrong usage, and with 3 if the runs prove
// nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"chatclub/internal/service"
	"chatclub/loadtest/report"
)

func main() {
	ctx, stop := service.SignalContext(context.Background())
	code := run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// streams are the process's.
type streams struct{ out, err io.Writer }

const usage = `loadtest puts chatclub's dispatchers, and other ways of sharing a limit, to the test.

  loadtest list                    the cases, the strategies and the peers
  loadtest run CASE [flags]        play a case with chatclub's dispatcher
  loadtest compare CASE [flags]    play a case with every strategy, one after another
  loadtest articles [NAME] [flags] play the articles' experiments in virtual time, in seconds
  loadtest faults [flags]          make a whole deployment fail, and judge what each fault costs
  loadtest evidence [flags]        play the tables of docs/evidence.md, in some 100 minutes
  loadtest report FOLDER           show the report.json in a folder, and draw its page again

  loadtest run -h, loadtest faults -h    the flags
  loadtest -version                      what this program was built from

Exit codes of all but list:

  0  PASS: chatclub did all that the case expects
  1  FAIL: it did not, or messages were lost; or an error
  2  wrong usage
  3  NO VERDICT: the runs prove nothing, as on a busy machine, or were stopped
`

// exitNoVerdict is neither success nor failure: nothing was proven.
const exitNoVerdict = 3

// usageError is the caller's error: exit code 2.
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
func exitCode(r *report.Report) int {
	return map[report.Outcome]int{report.Pass: service.ExitOK, report.Fail: service.ExitFailure, report.NoVerdict: exitNoVerdict}[r.Verdict().Outcome]
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
	case "-h", "-help", "--help", "help":
		fmt.Fprint(s.out, usage)
		return service.ExitOK, nil
	case "list":
		if len(args) > 0 {
			return 0, usagef("list: unexpected argument %.40q", args[0])
		}
		return service.ExitOK, list(s.out)
	case "run", "compare":
		return play(ctx, name, args, s)
	case "articles":
		return playArticles(args, s)
	case "faults":
		return makeFaults(ctx, args, s)
	case "evidence":
		return makeEvidence(ctx, args, s)
	case "report":
		return show(args, s)
	}
	return 0, usagef("%.40q is none of list, run, compare, articles, faults, evidence and report", name)
}

// show prints the report of a folder, and draws its page again.
func show(args []string, s streams) (code int, err error) {
	if len(args) != 1 {
		return 0, usagef("report: one folder, please")
	}
	r, err := report.Read(args[0])
	if err != nil {
		return 0, usageError{err}
	}
	return exitCode(r), errors.Join(report.WriteTable(s.out, r), report.Save(args[0], r))
}

// parse parses flags. For -h it prints how the command is called, and the flags, and
// returns flag.ErrHelp.
func parse(fs *flag.FlagSet, args []string, call string, help io.Writer) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(help, "loadtest %s\n\n", call)
		fs.SetOutput(help)
		fs.PrintDefaults()
		return err
	case err != nil:
		return usageError{fmt.Errorf("%s: %w; loadtest %s -h lists the flags", fs.Name(), err, fs.Name())}
	case fs.NArg() > 0:
		return usagef("%s: unexpected argument %.40q", fs.Name(), fs.Arg(0))
	}
	return nil
}

// writable makes a folder for a report before hours pass.
func writable(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documents that anybody may read
		return fmt.Errorf("-out: %w", err)
	}
	return nil
}
