package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"chatclub/internal/loadtest/trial"
)

// history is a git repository, seen from a folder in it.
type history struct {
	dir   string
	paths []string // of the code that what was measured depends on, as git's pathspecs
}

// openHistory finds the code that a trial is made of: the files of each package
// that package trial, or the table of scenarios, imports, the module's
// dependencies, and how figures are folded to medians. How reports look changes
// no figure; nor do tests and documents.
func openHistory(ctx context.Context, dir string) (*history, error) {
	const each = `{{if .Module}}{{if .Module.Main}}{{.Dir}}{{range .EmbedFiles}}{{"\n"}}{{$.Dir}}/{{.}}{{end}}{{end}}{{end}}`
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f", each, "./internal/loadtest/trial", "./internal/loadtest/scenario")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list what a trial is made of: %w", explained(err))
	}
	h := &history{dir: dir, paths: []string{":(top)go.mod", ":(top)go.sum", ":(top)internal/loadtest/report/spread.go"}}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasSuffix(line, "/internal/loadtest/report") && !strings.Contains(line, "/internal/loadtest/report/") {
			h.paths = append(h.paths, ":(glob)"+line, ":(glob)"+line+"/*")
		}
	}
	h.paths = append(h.paths, ":(top,exclude,glob)**/*_test.go", ":(top,exclude,glob)**/*.md")
	return h, nil
}

// explained adds what a command said on standard error.
func explained(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

func (h *history) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = h.dir
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), explained(err)
}

// ingress starts webhook and core. Runs that publish copies straight onto the
// queues never do.
const ingress = "internal/loadtest/fleet/ingress.go"

// standsFor returns nil if a report of a revision is one of the code that is here:
// the revision is HEAD or an ancestor of it, and none of the paths has changed
// since, not even in the working tree. via is the entry of the report's runs.
func (h *history) standsFor(ctx context.Context, revision, via string) error {
	name, dirty := strings.CutSuffix(revision, "+dirty")
	switch {
	case name == "":
		return errors.New("it names no revision")
	case dirty:
		return fmt.Errorf("it is of %s with changes that nobody committed", name)
	}
	if _, err := h.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}"); err != nil {
		return fmt.Errorf("its revision %s is not in the history", name)
	}
	if _, err := h.git(ctx, "merge-base", "--is-ancestor", name, "HEAD"); err != nil {
		return fmt.Errorf("its revision %s is no ancestor of HEAD", name)
	}
	diff := slices.Concat([]string{"diff", "--name-only", name, "--"}, h.paths)
	if via == trial.ViaOutbound {
		diff = append(diff, ":(top,exclude)"+ingress)
	}
	out, err := h.git(ctx, diff...)
	if err != nil {
		return fmt.Errorf("what has changed since %s: %w", name, err)
	}
	if changed := strings.Fields(out); len(changed) > 0 {
		more := ""
		if len(changed) > 3 {
			more = fmt.Sprintf(" and %d more", len(changed)-3)
		}
		return fmt.Errorf("since its revision %s have changed %s%s", name, strings.Join(changed[:min(3, len(changed))], ", "), more)
	}
	return nil
}
