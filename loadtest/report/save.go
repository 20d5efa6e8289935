package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Save writes everything that shows the reports into dir, which it makes.
// One report becomes report.json, report.md, its pictures and report.html.
// Of several, which must be of different scenarios, each has a
// folder named after its scenario, and one report.html shows them all.
func Save(dir string, reports ...*Report) error {
	if len(reports) == 0 {
		return errors.New("save reports: there is none")
	}
	if len(reports) == 1 {
		if err := saveParts(dir, reports[0]); err != nil {
			return err
		}
	} else {
		seen := make(map[string]bool)
		for _, r := range reports {
			if seen[r.Scenario] {
				return fmt.Errorf("save reports: two are of scenario %s", r.Scenario)
			}
			seen[r.Scenario] = true
			if err := saveParts(filepath.Join(dir, r.Scenario), r); err != nil {
				return err
			}
		}
	}
	return saveFile(filepath.Join(dir, "report.html"), func(w io.Writer) error { return WriteHTML(w, reports...) })
}

// saveParts writes all but the page.
func saveParts(dir string, r *Report) error {
	var raw bytes.Buffer
	if err := Write(&raw, r); err != nil { // also checks the scenario's name
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documents that anybody may read
		return fmt.Errorf("save report: %w", err)
	}
	if err := saveFile(filepath.Join(dir, "report.json"), func(w io.Writer) error { _, err := raw.WriteTo(w); return err }); err != nil {
		return err
	}
	if err := saveFile(filepath.Join(dir, "report.md"), func(w io.Writer) error { return WriteMarkdown(w, r) }); err != nil {
		return err
	}
	return savePictures(dir, r)
}

// savePictures writes the pictures, and removes those of an earlier report.
func savePictures(dir string, r *Report) error {
	for _, id := range []string{"comparison", "sends", "refusals", "latency", "curve"} {
		if err := os.Remove(filepath.Join(dir, id+".png")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("save report: %w", err)
		}
	}
	for _, c := range charts(r) {
		if err := saveFile(filepath.Join(dir, c.ID+".png"), func(w io.Writer) error { return drawChart(w, &c) }); err != nil {
			return err
		}
	}
	if bars := comparison(r); len(bars.Titles) > 0 {
		return saveFile(filepath.Join(dir, "comparison.png"), func(w io.Writer) error { return drawBars(w, bars) })
	}
	return nil
}

// telling returns the picture that says most, the one that report.md shows: the
// comparison where several strategies ran, otherwise the sends against the
// limit. ok is false without any.
func telling(r *Report) (p picture, ok bool) {
	compared := slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Strategy != r.Runs[0].Strategy })
	all := charts(r)
	if bars := comparison(r); (compared || len(all) == 0) && len(bars.Titles) > 0 {
		return picture{"comparison.png", "Compared: " + strings.Join(bars.Titles, ", ")}, true
	}
	if len(all) > 0 {
		return picture{all[0].ID + ".png", all[0].Title}, true
	}
	return picture{}, false
}

func saveFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("save %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil { //nolint:gosec // a document that anybody may read
		return fmt.Errorf("save report: %w", err)
	}
	return nil
}

// Find reads the reports that the paths name: files, or folders, of which
// every report.json is read, those in folders below included.
func Find(paths ...string) ([]*Report, error) {
	files, err := find(paths)
	if err != nil {
		return nil, err
	}
	out := make([]*Report, len(files))
	for i, file := range files {
		if out[i], err = open(file); err != nil {
			return nil, fmt.Errorf("find reports: %w", err)
		}
	}
	return out, nil
}

func find(paths []string) (files []string, err error) {
	for _, path := range paths {
		found := len(files)
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (file == path || d.Name() == "report.json") {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("find reports: %w", err)
		}
		if len(files) == found {
			return nil, fmt.Errorf("find reports: no report.json in %s", path)
		}
	}
	return files, nil
}

func open(file string) (*Report, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}
