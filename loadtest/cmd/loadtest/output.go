package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"chatclub/loadtest/report"
)

// write prints the verdict and the table, writes the files that were asked for,
// and says where the report is.
func (p *parsed) write(r *report.Report, s streams) error {
	if p.json == "-" {
		fmt.Fprintf(s.err, "loadtest: %s: %s\n", r.Scenario, r.Verdict())
		return errors.Join(p.save(r), report.WriteCompact(s.out, r))
	}
	if err := errors.Join(report.WriteTable(s.out, r), p.save(r)); err != nil {
		return err
	}
	switch {
	case p.out != "":
		fmt.Fprintln(s.out, "report:", filepath.Join(p.out, "report.html"))
	case !slices.ContainsFunc(r.Runs, failed):
		fmt.Fprintln(s.out, "report: none; -out DIR writes DIR/report.html")
	}
	return nil
}

// save writes the files that were asked for.
func (p *parsed) save(r *report.Report) error {
	var faults []error
	if p.json != "" && p.json != "-" {
		faults = append(faults, toFile(p.json, func(w io.Writer) error { return report.WriteCompact(w, r) }))
	}
	if p.out != "" {
		faults = append(faults, report.Save(p.out, r))
	}
	return errors.Join(faults...)
}

// writable reports whether a file can be made in a folder.
func writable(flag, dir string) error {
	f, err := os.CreateTemp(dir, ".loadtest-*")
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) //nolint:gosec // made above
}

// toFile writes a file whole or not at all.
func toFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".loadtest-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name) //nolint:gosec // the user's own file
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name())) //nolint:gosec // made above
	}
	return nil
}
