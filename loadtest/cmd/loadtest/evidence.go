package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"chatclub/internal/service"
	"chatclub/loadtest/report"
)

// chapter is one table of the evidence.
type chapter struct {
	name    string
	command string // but for -runs, -broker and -out
	columns []report.Figure
	runs    int
}

// contenders are the ways of doing the job that are compared, beside systems of somebody
// else.
const contenders = " -strategies chatclub,article,static,redis"

// chapters are the evidence, in the order of weight: who stops it has the first ones.
func chapters() []chapter {
	const peers = contenders + " -peers all"
	flow := []report.Figure{report.Quota, report.Refused, report.HotP50, report.Inversions, report.Operations, report.MachineCPU}
	beside := []report.Figure{report.Refused, report.ColdP50, report.ColdP99, report.MachineCPU}
	own := []report.Figure{report.Quota, report.Refused, report.Others, report.ColdP50, report.ColdP99, report.Silence}
	return []chapter{
		{"saturate", "compare saturate -duration 12s" + peers, flow, 5},
		{"neighbour", "compare neighbour -duration 16s" + contenders, beside, 5},
		{"scale", "compare scale -duration 24s" + contenders, flow, 5},
		{"lively-room", "run lively-room -duration 15s", []report.Figure{report.HotP50, report.HotP99, report.Calls}, 3},
		{"limit-change", "compare limit-change -duration 32s" + peers, flow, 3},
		{"ten-rooms", "compare ten-rooms -duration 15s" + contenders, flow, 3},
		{"saturate-40ms", "compare saturate -duration 12s -latency lognormal:40ms,150ms" + contenders, flow, 3},
		{"small-limits", "compare small-limits -duration 12s" + contenders, beside, 3},
		{"voice", "run voice -duration 24s", own, 1},
		{"sick-member", "run sick-member -duration 16s", own, 1},
		{"sick-page", "run sick-page -duration 16s", own, 3},
		{"lane-neighbour", "run lane-neighbour -duration 15s", own, 1},
		{"rolling-restart", "run rolling-restart", own, 1},
	}
}

// chaptersOf returns those of the names, which are separated by commas; all if there are none.
func chaptersOf(names string) (list []chapter, err error) {
	all := chapters()
	if names == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(c chapter) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no table %.40q", name)
		}
		list = append(list, all[i])
	}
	return list, nil
}

// makeEvidence plays every chapter, and writes their tables into one document. What one
// of them proves does not keep the others from being played.
func makeEvidence(ctx context.Context, args []string, s streams) (code int, err error) {
	fs := flag.NewFlagSet("evidence", flag.ContinueOnError)
	out := fs.String("out", "out/evidence", "folder to write evidence.md and the reports into")
	broker := fs.String("broker", memoryBroker, "memory, or the address of a RabbitMQ, amqp://…")
	runs := fs.Int("runs", 0, "of each table, of which figures are medians; 0: as the table says, 1 to 5")
	only := fs.String("only", "", "names of tables, separated by commas; empty: all")
	if err := parse(fs, args, "evidence [flags]", s.out); err != nil {
		return 0, err
	}
	list, err := chaptersOf(*only)
	if err := errors.Join(err, writable(*out)); err != nil {
		return 0, usageError{err}
	}
	var doc strings.Builder
	for _, c := range list {
		if ctx.Err() != nil {
			code = cmp.Or(code, exitNoVerdict)
			break
		}
		words := strings.Fields(c.command)
		dir := filepath.Join(*out, c.name)
		words = append(words, "-runs", strconv.Itoa(cmp.Or(*runs, c.runs)), "-broker", *broker, "-out", dir)
		one, err := play(ctx, words[0], words[1:], streams{io.Discard, s.err})
		if err != nil {
			return 0, fmt.Errorf("%s: %w", c.name, err)
		}
		r, err := report.Read(dir)
		if err != nil {
			return 0, err
		}
		if code != service.ExitFailure { // which is worse than to prove nothing
			code = cmp.Or(one, code)
		}
		fmt.Fprintf(&doc, "## %s: %s\n\n%s\n%s: `%s`\n\n", c.name, r.Title, report.Markdown(r.Runs, c.columns...), r.Verdict(), r.Command)
		file := filepath.Join(*out, "evidence.md")
		if err := os.WriteFile(file, []byte(doc.String()), 0o644); err != nil { //nolint:gosec // a document that anybody may read
			return 0, fmt.Errorf("write evidence: %w", err)
		}
	}
	_, err = fmt.Fprint(s.out, doc.String())
	return code, err
}
