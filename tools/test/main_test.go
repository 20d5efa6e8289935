package main

import (
	"bytes"
	"strings"
	"testing"

	"chatclub/internal/queue/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m) }

func TestRun(t *testing.T) {
	url := rabbittest.URL(t)
	for _, c := range []struct {
		name   string
		env    map[string]string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"no command", nil, []string{}, 2, "", "usage"},
		{"no value", nil, []string{"-timeout"}, 2, "", "-timeout needs a value"},
		{"no such package", nil, []string{"./nothing"}, 2, "", "go list"},
		{"gives the broker", map[string]string{"AMQP_URL": url}, []string{"sh", "-c", `echo "$AMQP_URL"`}, 0, url, ""},
		{"gives the database", map[string]string{"AMQP_URL": url}, []string{"sh", "-c", `echo "$TEST_DATABASE_URL"`}, 0, "postgres://", ""},
		{"gives the browser", map[string]string{"AMQP_URL": url, "CHROMIUM": "/the/browser"}, []string{"sh", "-c", `echo "$CHROMIUM"`}, 0, "/the/browser", ""},
		{"passes the exit code on", map[string]string{"AMQP_URL": url}, []string{"sh", "-c", "exit 7"}, 7, "", "exit code 7 after"},
		{"a signal ended it", map[string]string{"AMQP_URL": url}, []string{"sh", "-c", "kill -TERM $$"}, 143, "", ""},
		{"no such command", map[string]string{"AMQP_URL": url}, []string{"/no/such/command"}, 126, "", "no such file"},
		{
			"no broker",
			map[string]string{"AMQP_URL": "amqp://guest:hunter2@127.0.0.1:1/"},
			[]string{"sh", "-c", `echo "$CHATCLUB_NO_BROKER"; exit 3`},
			3, "cannot be used", "cannot be used",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			var stdout, stderr bytes.Buffer
			args := c.args
			if c.name[:3] != "no " || c.code == 3 || c.code == 126 || len(c.args) == 0 {
				args = append([]string{"exec"}, args...)
			}
			if code := run(args, strings.NewReader(""), &stdout, &stderr); code != c.code {
				t.Errorf("run(%q) = %d, want %d", c.args, code, c.code)
			}
			if !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("run(%q) printed %q and %q, want %q and %q in them", c.args, stdout.String(), stderr.String(), c.stdout, c.stderr)
			}
			if strings.Contains(stdout.String()+stderr.String(), "hunter2") {
				t.Errorf("run(%q) shows the password", c.args)
			}
		})
	}
}
