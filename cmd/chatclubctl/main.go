// Command chatclubctl is the operator's tool: it says why messages wait, works
// on dead letters and broadcasts, and lists, pauses and resumes pages.
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
	"time"

	"chatclub/internal/service"
)

func main() { os.Exit(service.Main(os.Stderr, run)) }

func run(ctx context.Context) error {
	return tool{stdout: os.Stdout, stderr: os.Stderr, secondLook: handOver}.run(ctx, os.Args[1:])
}

// handOver is the time in which a partition goes from one consumer to the next.
const handOver = 3 * time.Second

// tool is one call of the program.
type tool struct {
	environ        map[string]string // nil: that of the process
	stdout, stderr io.Writer
	secondLook     time.Duration // the pause before the second look at queues without a consumer
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
		{"status", "", "say of RabbitMQ and each program whether it is ready", tool.status},
		{"doctor", "", "look for all that is wrong, and say what to do", tool.doctor},
		{"why", "PAGE|ID|PERSON", "say why messages of a page, to a person, or one message, wait, and until when", tool.why},
		{"dead list", "", "list dead letters, and count them by reason", tool.deadList},
		{"dead show", "ID", "show the dead letters of an id", tool.deadShow},
		{"dead replay", "", "send dead letters again", tool.deadReplay},
		{"dead purge", "", "remove dead letters", tool.deadPurge},
		{"pages list", "", "list pages: who owns them, and what keeps them back", tool.pagesList},
		{"pages pause", "PAGE", "send nothing for a page; its messages wait", tool.pagesPause},
		{"pages resume", "PAGE", "send for a paused or suspended page again", tool.pagesResume},
		{"pages limit", "PAGE", "give a page a limit of its own", tool.pagesLimit},
		{"broadcast start", "PAGE", "send a text to the rooms of a page", tool.broadcastStart},
		{"broadcast list", "", "list broadcasts, and how far each is", tool.broadcastList},
		{"broadcast show", "ID", "show one with its text", tool.broadcastShow},
		{"broadcast stop", "ID", "stop one", tool.broadcastStop},
	}
}

func (t tool) run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		return usage("a command must be given")
	case asksHelp(args[0]):
		t.help("")
		return service.ErrPrinted
	case len(args) == 2 && asksHelp(args[1]) && isGroup(args[0]):
		t.help(args[0] + " ")
		return service.ErrPrinted
	case slices.Contains([]string{"-version", "--version"}, args[0]):
		fmt.Fprintln(t.stdout, service.Version("chatclubctl"))
		return service.ErrPrinted
	}
	i := slices.IndexFunc(commands(), func(c command) bool {
		words := strings.Fields(c.words)
		return len(args) >= len(words) && slices.Equal(args[:len(words)], words)
	})
	if i < 0 {
		return usage("unknown command %.40q", strings.Join(args[:min(2, len(args))], " "))
	}
	c, operand := commands()[i], ""
	flags := args[len(strings.Fields(c.words)):]
	if c.operand != "" && (len(flags) == 0 || !asksHelp(flags[0])) {
		if len(flags) == 0 || flags[0] == "" || strings.HasPrefix(flags[0], "-") {
			return usage("%s: %s must follow", c.words, c.operand)
		}
		operand, flags = flags[0], flags[1:]
	}
	return c.run(t, ctx, operand, flags)
}

func asksHelp(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }

// usage is the error of a wrong call.
func usage(format string, args ...any) error {
	return &service.SettingsError{Of: "chatclubctl", Faults: []error{fmt.Errorf(format+"; chatclubctl -h lists all", args...)}}
}

// wrong is the error of wrong settings.
func wrong(faults ...error) error { return &service.SettingsError{Faults: faults} }

// isGroup reports whether commands of two words begin with a word.
func isGroup(word string) bool {
	return slices.ContainsFunc(commands(), func(c command) bool { return strings.HasPrefix(c.words, word+" ") })
}

// help lists the commands that begin with words.
func (t tool) help(words string) {
	fmt.Fprintln(t.stdout, "chatclubctl is the operator's tool.\n\nUsage: chatclubctl COMMAND [flags]")
	fmt.Fprintln(t.stdout)
	w := newTable(t.stdout)
	for _, c := range commands() {
		if !strings.HasPrefix(c.words, words) {
			continue
		}
		fmt.Fprintf(w, "  %s\t%s\n", strings.TrimSpace(c.words+" "+c.operand), c.about)
	}
	_ = w.Flush() // as all that is printed here
	fmt.Fprintln(t.stdout, "\nEach command lists its flags and settings with -h. The exit code is 0 if all was done,\n2 if a flag or setting is wrong, and otherwise 1.")
}
