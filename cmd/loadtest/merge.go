package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"chatclub/internal/loadtest/report"
)

// writeReadmes writes what READMEs show of reports.
func writeReadmes(paths []string) error {
	for _, path := range paths {
		write := report.FillFile
		if info, err := os.Stat(path); err == nil && info.IsDir() { //nolint:gosec // the user's own
			write = showReports
		}
		if err := write(path); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

// mergeReports reads the reports in folders, joins those of one scenario,
// prints them and writes them where -out says. With -beside it writes what shows
// each report beside it instead.
func mergeReports(args []string, s streams) error {
	fs := flag.NewFlagSet("report", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	out := fs.String("out", "", "folder to write the merged report into: report.html, and of each scenario report.json, report.md and pictures")
	beside := fs.Bool("beside", false, "write report.md, report.html and all pictures of each report.json beside it, and merge nothing")
	readme := fs.Bool("readme", false, "write the tables in the README.md of each folder anew from the reports below it, and its picture; of a README.md that is named, the tables alone")
	dirs, flags := split(args, switches(fs))
	if err := parseFlags(fs, flags, "report DIR… [flags]", s.out); err != nil {
		return err
	}
	if len(dirs) == 0 {
		return usagef("report: which folders?")
	}
	if *beside && *out != "" || *readme && (*out != "" || *beside) {
		return usagef("report: -beside, -readme and -out: one of them")
	}
	if *readme {
		return writeReadmes(dirs)
	}
	if *beside {
		n, err := report.SaveBeside(dirs...)
		if err == nil {
			fmt.Fprintf(s.out, "%d reports written\n", n)
		}
		return err
	}
	found, err := report.Find(dirs...)
	if err != nil {
		return err
	}
	merged := report.Merge(found...)
	for i, r := range merged {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		if err := report.WriteTable(s.out, r); err != nil {
			return err
		}
	}
	if *out == "" {
		return nil
	}
	if err := report.Save(*out, merged...); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "report:", filepath.Join(*out, "report.html"))
	return nil
}
