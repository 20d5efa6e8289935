package service

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type nested struct {
	Count int `env:"COUNT" envDefault:"7" doc:"How many."`
}

func (n nested) Validate() error { return CheckRange("COUNT", n.Count, 1, 9) }

type sample struct {
	Name   string        `env:"NAME" envDefault:"x" doc:"A name | with a bar."`
	Token  Secret        `env:"TOKEN,required" doc:"A secret."`
	Wait   time.Duration `env:"WAIT" envDefault:"2s" doc:"A wait."`
	On     bool          `env:"ON" doc:"A switch."`
	Nested nested
	Log    LogSettings
}

func (sample) About() string { return "sample is for tests." }

func (s sample) Validate() error {
	var err error
	if s.Name == "bad" {
		err = Faultf("NAME", "must not be bad")
	}
	return errors.Join(err, CheckSet("TOKEN", s.Token))
}

func TestLoadDefaultsAndValues(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"TOKEN": "t", "WAIT": "", "ON": "true", "COUNT": "3", "LOG_LEVEL": "WARN", "LOG_FORMAT": "json"}
	got, err := Load[sample](nil, environ, nil)
	if err != nil {
		t.Fatalf("Load(%v) = %v, want nil", environ, err)
	}
	want := sample{
		Name: "x", Token: "t", Wait: 2 * time.Second, On: true, Nested: nested{Count: 3},
		Log: LogSettings{Level: slog.LevelWarn, Format: LogJSON},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load(%v): -want +got\n%s", environ, diff)
	}
}

// TestLoadTrims has white space around every kind of value, as mounted secrets and
// edited files have it.
func TestLoadTrims(t *testing.T) {
	t.Parallel()
	environ := map[string]string{
		"NAME": "\ty ", "TOKEN": "se cret\r\n", "WAIT": " 3s", "ON": "true\n", "COUNT": "3\u00a0", "LOG_LEVEL": "warn ", "LIST": " a, b ,c\n",
	}
	type listed struct {
		sample
		List []string `env:"LIST" doc:"A list."`
	}
	got, err := Load[listed](nil, environ, nil)
	if err != nil {
		t.Fatalf("Load(%q) = %v, want nil", environ, err)
	}
	want := listed{sample{
		Name: "y", Token: "se cret", Wait: 3 * time.Second, On: true, Nested: nested{Count: 3},
		Log: LogSettings{Level: slog.LevelWarn, Format: LogText},
	}, []string{"a", "b", "c"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(listed{})); diff != "" {
		t.Errorf("Load(%q): -want +got\n%s", environ, diff)
	}
	if _, err := Load[sample]([]string{"-count", " 3 "}, environ, nil); err != nil {
		t.Errorf("Load(-count ' 3 ') = %v, want nil", err)
	}
}

// spare has settings that are not meant for us unless SPARE is set.
type spare struct {
	Spare string `env:"SPARE" doc:"Something."`
	Kind  int    `env:"KIND" doc:"A number."`
}

func (s spare) IsUnused() bool { return s.Spare == "" }

func (s spare) Validate() error { return CheckRange("KIND", s.Kind, 1, 9) }

func TestLoadLeavesOutWhatIsUnused(t *testing.T) {
	t.Parallel()
	type settings struct{ Spare spare }
	for _, row := range []struct {
		environ map[string]string
		want    string
	}{
		{map[string]string{"KIND": "odd"}, "<nil>"},
		{map[string]string{"KIND": "10"}, "<nil>"},
		{map[string]string{"SPARE": "x", "KIND": "odd"}, `settings: KIND: "odd" is not a whole number`},
		{map[string]string{"SPARE": "x", "KIND": "10"}, "settings: KIND: 10 must be 1 to 9"},
	} {
		if _, err := Load[settings](nil, row.environ, nil); fmt.Sprint(err) != row.want {
			t.Errorf("Load(%v) = %v, want %s", row.environ, err, row.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	want := sample{Name: "x", Wait: 2 * time.Second, Nested: nested{Count: 7}, Log: LogSettings{Format: LogText}}
	if diff := cmp.Diff(want, Defaults[sample]()); diff != "" {
		t.Errorf("Defaults: -want +got\n%s", diff)
	}
}

func TestLoadReadsTheProcessEnvironment(t *testing.T) {
	t.Setenv("TOKEN", "from the process")
	got, err := Load[sample](nil, nil, nil)
	if err != nil || got.Token != "from the process" {
		t.Errorf("Load(nil) = %q, %v, want the process's TOKEN", got.Token.Reveal(), err)
	}
}

func TestLoadNamesEveryFaultInOneLine(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		args    []string
		environ map[string]string
		want    string
	}{
		{"missing", nil, nil, "settings: TOKEN: must be set"},
		{"empty counts as unset", nil, map[string]string{"TOKEN": ""}, "settings: TOKEN: must be set"},
		{"parse", nil, map[string]string{"TOKEN": "t", "COUNT": "abc"}, `settings: COUNT: "abc" is not a whole number`},
		{"range", nil, map[string]string{"TOKEN": "t", "COUNT": "10"}, `settings: COUNT: 10 must be 1 to 9`},
		{"white space counts as unset", nil, map[string]string{"TOKEN": " \n"}, "settings: TOKEN: must be set"},
		{"quotes", nil, map[string]string{"TOKEN": "\"t\"", "COUNT": "'3'"}, "settings: TOKEN: is in quotes: leave them out, they count as a part of it; COUNT: is in quotes: leave them out, they count as a part of it"},
		{
			"all",
			nil,
			map[string]string{"NAME": "bad", "WAIT": "2", "ON": "yes", "COUNT": "0", "LOG_LEVEL": "loud", "LOG_FORMAT": "xml"},
			`settings: TOKEN: must be set; WAIT: "2" is not a duration such as 20s; ` +
				`ON: "yes" is not true or false; LOG_LEVEL: "loud" is not debug, info, warn or error; ` +
				`LOG_FORMAT: "xml" is not text or json; NAME: must not be bad; COUNT: 0 must be 1 to 9`,
		},
		{"argument", []string{"serve"}, nil, `service.test: unexpected argument "serve"; -h lists all`},
		{"flag", []string{"-wrong"}, nil, `service.test: flag provided but not defined: -wrong; -h lists all`},
		{"secret", []string{"-token", "t"}, nil, `service.test: flag provided but not defined: -token; -h lists all`},
		{"value", []string{"-count", "0"}, map[string]string{"TOKEN": "t", "COUNT": "3"}, `settings: COUNT: 0 must be 1 to 9`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if row.environ == nil {
				row.environ = map[string]string{}
			}
			got, err := Load[sample](row.args, row.environ, nil)
			if err == nil || err.Error() != row.want {
				t.Errorf("Load(%q, %v) = %v, want %s", row.args, row.environ, err, row.want)
			}
			if _, ok := errors.AsType[*SettingsError](err); !ok {
				t.Errorf("Load error is a %T, want *SettingsError", err)
			}
			if got != (sample{}) {
				t.Errorf("Load with faults = %+v, want the zero value", got)
			}
		})
	}
}

func TestLoadTakesFlagsBeforeVariables(t *testing.T) {
	t.Parallel()
	got, err := Load[sample]([]string{"-on", "-wait", "3s", "-log-level=warn"}, map[string]string{"TOKEN": "t", "WAIT": "4s"}, nil)
	if err != nil || !got.On || got.Wait != 3*time.Second || got.Log.Level != slog.LevelWarn {
		t.Errorf("Load = %+v, %v, want ON, 3s and WARN", got, err)
	}
}

func TestLoadVersion(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	fs := flag.NewFlagSet("sample", flag.ContinueOnError)
	if _, err := LoadFlags[sample](fs, []string{"-version"}, map[string]string{}, &out); !errors.Is(err, ErrPrinted) {
		t.Errorf("LoadFlags(-version) = %v, want ErrPrinted", err)
	}
	if want := ", " + runtime.Version() + "\n"; !strings.HasPrefix(out.String(), "sample ") || !strings.HasSuffix(out.String(), want) {
		t.Errorf("LoadFlags(-version) prints %q, want sample, its version and %q", out.String(), want)
	}
}

func TestLoadHelp(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"-h", "--help"} {
		var out bytes.Buffer
		if _, err := Load[sample]([]string{arg}, map[string]string{}, &out); !errors.Is(err, ErrPrinted) {
			t.Errorf("Load(%s) = %v, want ErrPrinted", arg, err)
		}
		_, table, _ := strings.Cut(out.String(), "before LOG_LEVEL:\n")
		want := strings.Join([]string{
			"  NAME (text, default x)",
			"      A name | with a bar.",
			"  TOKEN (secret, required)",
			"      A secret.",
			"  WAIT (duration such as 20s, default 2s)",
			"      A wait.",
			"  ON (true or false, no default)",
			"      A switch.",
			"  COUNT (whole number, default 7)",
			"      How many.",
			"  LOG_LEVEL (debug, info, warn or error, default info)",
			"      Least level that is logged (debug has a line for each message).",
			"  LOG_FORMAT (text or json, default text)",
			"      Form of the log lines.",
			"",
		}, "\n")
		if diff := cmp.Diff(want, table); diff != "" {
			t.Errorf("Load(%s) table: -want +got\n%s", arg, diff)
		}
		if !strings.HasPrefix(out.String(), "sample is for tests.\n") {
			t.Errorf("Load(%s) does not begin with About:\n%s", arg, out.String())
		}
	}
}

// TestHelpFitsATerminal: no line is longer than 80 columns.
func TestHelpFitsATerminal(t *testing.T) {
	t.Parallel()
	type long struct {
		Words string `env:"WORDS" envDefault:"a" doc:"A meaning of so many words that it cannot be on one line, whatever is done, and has two lines."`
	}
	var out bytes.Buffer
	if _, err := Load[long]([]string{"-h"}, map[string]string{}, &out); !errors.Is(err, ErrPrinted) {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if !strings.Contains(out.String(), "  WORDS (text, default a)\n") {
		t.Errorf("WORDS is not listed:\n%s", &out)
	}
}

func TestLoadFlags(t *testing.T) {
	t.Parallel()
	newSet := func() (*flag.FlagSet, *time.Duration) {
		fs := flag.NewFlagSet("chatclub", flag.ContinueOnError)
		return fs, fs.Duration("for", 0, "how `long` to run")
	}
	fs, d := newSet()
	if _, err := LoadFlags[sample](fs, []string{"-for", "20s"}, map[string]string{"TOKEN": "t"}, nil); err != nil || *d != 20*time.Second {
		t.Errorf("LoadFlags(-for 20s) = %v with %v, want nil with 20s", err, *d)
	}
	fs, _ = newSet()
	_, err := LoadFlags[sample](fs, []string{"-for", "x"}, map[string]string{}, nil)
	if err == nil || !strings.Contains(err.Error(), "-for") || strings.Contains(err.Error(), "TOKEN") {
		t.Errorf("LoadFlags(-for x) = %v, want -for named alone", err)
	}
	fs, _ = newSet()
	var out bytes.Buffer
	if _, err := LoadFlags[sample](fs, []string{"-h"}, map[string]string{}, &out); !errors.Is(err, ErrPrinted) || !strings.Contains(out.String(), "-for long") {
		t.Errorf("LoadFlags(-h) = %v with\n%s\nwant ErrPrinted and -for described", err, out.String())
	}
}
