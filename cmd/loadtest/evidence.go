package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"chatclub/internal/loadtest/report"
	"chatclub/internal/service"
)

// evidence measures what docs/evidence shows.
type evidence struct {
	dir     string // docs/evidence
	broker  string // its address; "": there is none
	rows    []evidenceRow
	measure func(ctx context.Context, args []string) (code int, err error) // runs this program
	stands  func(ctx context.Context, revision, via string) error          // history.standsFor
	s       streams
}

// makeEvidence makes the folders that are named, or all; or checks them.
func makeEvidence(ctx context.Context, args []string, s streams) (int, error) {
	fs := flag.NewFlagSet("evidence", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	dir := fs.String("dir", "docs/evidence", "where the folders are")
	check := fs.Bool("check", false, "measure nothing: report whether each report is of the code that is here")
	estimate := fs.Bool("estimate", false, "measure nothing: print how long each folder takes")
	names, flags := split(args, switches(fs))
	if err := parseFlags(fs, flags, "evidence [FOLDER…] [flags]", s.out); err != nil {
		return 0, err
	}
	e := &evidence{dir: *dir, broker: os.Getenv("AMQP_URL"), measure: again, s: s}
	for _, r := range evidenceRows() {
		if len(names) == 0 || slices.Contains(names, r.folder) {
			e.rows = append(e.rows, r)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(e.rows, func(r evidenceRow) bool { return r.folder == name }) {
			return 0, usagef("evidence: there is no folder %.40q; loadtest evidence -estimate lists them", name)
		}
	}
	if *estimate {
		return service.ExitOK, e.estimate(e.rows)
	}
	h, err := openHistory(ctx, ".")
	if err != nil {
		return 0, err
	}
	e.stands = h.standsFor
	if *check {
		return e.check(ctx)
	}
	if report.ThisBuild().Chatclub == "" {
		return 0, errors.New("evidence: this program does not know its revision, which the reports must name: use make evidence")
	}
	return e.run(ctx)
}

// again runs this program once more: what one row leaves in memory is not to be
// in the next one's figures.
func again(ctx context.Context, args []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it writes what ran
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C on the terminal reaches it once
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return service.ExitOK, err
}

// estimate prints how long the rows take.
func (e *evidence) estimate(rows []evidenceRow) error {
	all := time.Duration(0)
	for _, r := range rows {
		takes, err := r.takes()
		if err != nil {
			return err
		}
		all += takes
		fmt.Fprintf(e.s.out, "%-20s %6s  %s\n", r.folder, clock(takes), strings.Join(r.args("AMQP_URL"), " "))
	}
	fmt.Fprintf(e.s.out, "%d folders, about %s on a quiet machine; what is disturbed takes longer\n", len(rows), clock(all))
	return nil
}

// run makes the rows that are not of this code yet, one after another, whatever
// comes of the others; then it writes the tables, and checks all. A row that ends
// otherwise than expected is told in the end, with exit code 1; one without a
// verdict is told, and is made again the next time.
func (e *evidence) run(ctx context.Context) (int, error) {
	var rows []evidenceRow
	var bad, open []string
	for _, r := range e.rows {
		switch _, err := e.upToDate(ctx, r); {
		case err == nil:
			fmt.Fprintf(e.s.err, "== %s is up to date\n", r.folder)
		case r.needsBroker() && e.broker == "":
			fmt.Fprintf(e.s.err, "== %s needs a RabbitMQ: set AMQP_URL\n", r.folder)
			bad = append(bad, r.folder)
		default:
			rows = append(rows, r)
		}
	}
	if err := e.estimate(rows); err != nil {
		return 0, err
	}
	for _, r := range rows {
		if ctx.Err() != nil {
			return exitNoVerdict, nil //nolint:nilerr // a user who stops it has no error; the next time goes on here
		}
		fmt.Fprintln(e.s.err, "==", r.folder)
		switch code, err := e.measure(ctx, append(r.args(e.broker), "-out", filepath.Join(e.dir, r.folder))); {
		case err != nil:
			return 0, fmt.Errorf("evidence: %s: %w", r.folder, err)
		case code == exitNoVerdict:
			open = append(open, r.folder)
		case code != service.ExitOK:
			bad = append(bad, r.folder)
		}
	}
	if err := e.show(); err != nil {
		return 0, err
	}
	code, err := e.check(ctx)
	if len(open) > 0 {
		fmt.Fprintln(e.s.err, "no verdict:", strings.Join(open, " "))
	}
	if len(bad) > 0 {
		fmt.Fprintln(e.s.err, "not as expected:", strings.Join(bad, " "))
		code = service.ExitFailure
	}
	return code, err
}

// upToDate returns nil if a row's report is of the code that is here, was made as
// the row says and has no run that proves nothing. Others' runs may prove nothing
// where there are several of each, which were made again already: these it returns.
func (e *evidence) upToDate(ctx context.Context, r evidenceRow) (unproven []string, err error) {
	found, err := report.Find(filepath.Join(e.dir, r.folder, "report.json"))
	if err != nil {
		return nil, errors.New("there is no report that can be read")
	}
	one := found[0]
	p, err := r.parsed()
	if err != nil {
		return nil, err
	}
	if err := e.stands(ctx, one.Versions.Chatclub, p.common.Via); err != nil {
		return nil, err
	}
	// The command has the broker's address, without its password, and the folder in it.
	if want := strings.Join(r.args("AMQP_URL"), " "); !madeBy(one.Command, want) {
		return nil, fmt.Errorf("it was made by another command: %s", one.Command)
	}
	if one.Unfinished != "" {
		return nil, errors.New(one.Unfinished)
	}
	for _, run := range one.Runs {
		switch {
		case run.Status == report.Inconclusive && run.Strategy != report.Own && p.runs > 1:
			unproven = append(unproven, run.Name())
		case run.Status != report.Complete:
			return nil, fmt.Errorf("%s is %s", run.Name(), run.Status)
		}
	}
	return unproven, nil
}

// madeBy reports whether a command in a report is the one of a row, whatever the
// broker's address and the folder were.
func madeBy(command, row string) bool {
	words := strings.Fields(command)
	for i, w := range words {
		if i > 0 && words[i-1] == "-broker" {
			words[i] = "AMQP_URL"
		}
		if w == "-out" {
			words = words[:i]
			break
		}
	}
	return strings.HasSuffix(strings.Join(words, " "), " "+row)
}

// check reports of each row whether its report stands for the code that is here,
// and whose runs in it prove nothing.
func (e *evidence) check(ctx context.Context) (int, error) {
	stale := 0
	for _, r := range e.rows {
		unproven, err := e.upToDate(ctx, r)
		if err != nil {
			stale++
			fmt.Fprintf(e.s.out, "%s: %v\n", r.folder, err)
		}
		for _, name := range unproven {
			fmt.Fprintf(e.s.out, "%s: %s has no verdict, which its table says\n", r.folder, name)
		}
	}
	if stale > 0 {
		fmt.Fprintf(e.s.out, "%d of %d reports are not of this code: say so where their figures stand, and run make evidence\n", stale, len(e.rows))
		return service.ExitFailure, nil
	}
	fmt.Fprintf(e.s.out, "all %d reports are of this code\n", len(e.rows))
	return service.ExitOK, nil
}

// show writes the tables and the picture of what was measured.
func (e *evidence) show() error {
	if err := showReports(e.dir); err != nil {
		return err
	}
	return report.FillFile(filepath.Join(e.dir, "..", "..", "README.md"))
}

// strongest is the way of somebody else that used most of the limit; "": there is none.
func strongest(runs []report.Run) (name string) {
	most := 0.0
	for _, run := range runs {
		if run.Strategy != report.Own && !run.Baseline && run.Status == report.Complete && run.QuotaUse != nil && *run.QuotaUse > most {
			name, most = run.Strategy, *run.QuotaUse
		}
	}
	return name
}

// showReports writes a folder's README and picture anew from the reports in it.
func showReports(dir string) error {
	if err := report.FillFile(filepath.Join(dir, "README.md")); err != nil {
		return err
	}
	reports, err := report.Find(filepath.Join(dir, "saturate", "report.json"))
	if err != nil {
		return err
	}
	ways := []string{report.Own, "article"}
	if others, err := report.Find(filepath.Join(dir, "saturate-peers", "report.json")); err == nil { // when there is one
		reports = append(reports, others...)
		if peer := strongest(others[0].Runs); peer != "" {
			ways = append(ways, peer)
		}
	}
	return report.SaveSends(filepath.Join(dir, "sends.png"), ways, reports...)
}
