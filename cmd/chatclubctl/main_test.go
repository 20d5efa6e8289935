package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/service"
)

// asTool makes the test's own program the tool, for tests that kill it.
const asTool = "CHATCLUBCTL_TEST_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
	}
	rabbittest.Main(m)
}

// call runs the tool within the test.
func call(t *testing.T, environ map[string]string, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	err = tool{environ: environ, stdout: &out, stderr: t.Output()}.run(t.Context(), args)
	return out.String(), err
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, want string }{
		{"-h", "dead replay"},
		{"--help", "pages resume PAGE"},
		{"-version", "chatclubctl "},
		{"dead -h", "dead purge"},
		{"pages --help", "pages resume PAGE"},
		{"dead list -h", "-reason"},
		{"why -h", "3 if somebody must"},
		{"broadcast start -h", "-within"},
		{"dead show -h", "-body"},
		{"dead replay -h", "dead as expired again"},
		{"pages pause -h", "DISPATCHERS"},
	} {
		out, err := call(t, map[string]string{}, strings.Fields(tc.args)...)
		if !errors.Is(err, service.ErrPrinted) || !strings.Contains(out, tc.want) {
			t.Errorf("%s prints %q, %v, want %q", tc.args, out, err, tc.want)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	environ := map[string]string{"AMQP_URL": "amqp://guest:guest@127.0.0.1:1/"}
	for args, want := range map[string]string{
		"":                             "a command must be given",
		"dead":                         `unknown command "dead"`,
		"dead eat":                     `unknown command "dead eat"`,
		"dead show":                    "ID must follow",
		"dead show -body":              "ID must follow",
		"dead list x":                  "unexpected argument",
		"dead list -reason whim":       "-reason",
		"dead list -older -1h":         "-older",
		"dead list -limit -1":          "-limit",
		"dead list -partitions 0":      "PARTITIONS",
		"dead replay -rate 0":          "-rate",
		"dead replay -rate NaN":        "-rate",
		"dead purge -page 1":           "-yes",
		"pages list":                   "DISPATCHERS or CORE",
		"why":                          "PAGE|ID|PERSON must follow",
		"why 1/m":                      "CORE or DISPATCHERS",
		"why 1 -partitions 0":          "PARTITIONS",
		"status -webhook x":            "WEBHOOK",
		"doctor -dispatchers x":        "DISPATCHERS",
		"broadcast start":              "PAGE must follow",
		"broadcast list":               "CORE must be set",
		"pages list -core x":           "CORE",
		"pages pause":                  "PAGE must follow",
		"pages pause 1 -dispatchers x": "DISPATCHERS",
		"pages resume 1 -for 1h":       "-for",
		"pages pause 1 -for soon":      `invalid value "soon" for flag -for: it is not a duration such as 30m or 24h`,
		"pages limit 1 -text x":        "-text",
	} {
		out, err := call(t, environ, strings.Fields(args)...)
		if _, ok := errors.AsType[*service.SettingsError](err); !ok || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q prints %q, %v, want a SettingsError with %q", args, out, err, want)
		}
	}
}

func TestStatusOfNothing(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"status", "doctor"} {
		_, err := call(t, map[string]string{}, command)
		if _, ok := errors.AsType[*service.SettingsError](err); !ok || !strings.Contains(err.Error(), "AMQP_URL must be set") {
			t.Errorf("%s of nothing = %v, want a SettingsError", command, err)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "-", "1/m ä": "1/m ä", "a\x1b[2Jb\n": "a�[2Jb�"} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}
