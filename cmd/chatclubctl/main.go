// Command chatclubctl is the operator's tool: it lists dead letters, sends them
// again or removes them, and shows, pauses and resumes pages on all replicas.
// `chatclubctl -h` lists its commands, and each command its flags and settings
// with -h.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"chatclub/internal/service"
)

func main() { os.Exit(service.Main(os.Stderr, run)) }

func run(ctx context.Context) error {
	return tool{stdout: os.Stdout, stderr: os.Stderr}.run(ctx, os.Args[1:])
}

// tool is one call of the program.
type tool struct {
	environ        map[string]string // nil: that of the process
	stdout, stderr io.Writer
}

// command is one thing that the tool does.
type command struct {
	words   string
	operand string // what must follow the words; empty: nothing
	about   string
	run     func(t tool, ctx context.Context, operand string, flags []string) error
}

// commands has all, in the order of the help.
func commands() []command {
	return []command{
		{"dead list", "", "list dead letters, and count them by reason", tool.deadList},
		{"dead show", "ID", "show the dead letters of an id", tool.deadShow},
		{"dead replay", "", "send dead letters again", tool.deadReplay},
		{"dead purge", "", "remove dead letters", tool.deadPurge},
		{"pages list", "", "list pages: who owns them, and what keeps them back", tool.pagesList},
		{"pages pause", "PAGE", "make no more copies and answers for a page", tool.pagesPause},
		{"pages resume", "PAGE", "resume a page in core and on every dispatcher", tool.pagesResume},
	}
}

func (t tool) run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		return usage("a command must be given")
	case asksHelp(args[0]):
		t.help()
		return service.ErrPrinted
	case slices.Contains([]string{"-version", "--version"}, args[0]):
		fmt.Fprintln(t.stdout, service.Version("chatclubctl"))
		return service.ErrPrinted
	}
	words := strings.Join(args[:min(2, len(args))], " ")
	i := slices.IndexFunc(commands(), func(c command) bool { return c.words == words })
	if i < 0 {
		return usage("unknown command %.40q", words)
	}
	c, flags, operand := commands()[i], args[2:], ""
	if c.operand != "" && (len(flags) == 0 || !asksHelp(flags[0])) {
		if len(flags) == 0 || strings.HasPrefix(flags[0], "-") {
			return usage("%s: %s must follow", c.words, c.operand)
		}
		operand, flags = flags[0], flags[1:]
	}
	return c.run(t, ctx, operand, flags)
}

func asksHelp(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }

// usage is the error of a wrong call.
func usage(format string, args ...any) error {
	return &service.SettingsError{Faults: []error{fmt.Errorf(format+"; chatclubctl -h lists all", args...)}}
}

func (t tool) help() {
	fmt.Fprintln(t.stdout, "chatclubctl is the operator's tool.\n\nUsage: chatclubctl COMMAND [flags]")
	fmt.Fprintln(t.stdout)
	w := tabwriter.NewWriter(t.stdout, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %s\t%s\n", strings.TrimSpace(c.words+" "+c.operand), c.about)
	}
	_ = w.Flush() // as all that is printed here
	fmt.Fprintln(t.stdout, "\nEach command lists its flags and settings with -h. The exit code is 0 if all was done,\n2 if a flag or setting is wrong, and otherwise 1.")
}

// printable returns s such that it cannot act on a terminal: anybody may have
// written what is on a queue.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '�'
	}, s)
}
