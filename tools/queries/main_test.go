package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	const whole = `{
		"panels": [{"id": 7, "title": "CPU", "targets": [{"refId": "A", "expr": "rate(x{job=~\"$job\"}[$__rate_interval])"}]}],
		"annotations": {"list": [{"name": "Starts", "expr": "up"}]},
		"templating": {"list": [{"name": "datasource", "type": "datasource"}, {"name": "job", "type": "query", "definition": "label_values(up, job)"}]}
	}`
	const rules = `groups:
  - name: dashboard
    rules:
      # panel 7 CPU, A
      - record: dashboard:query_1
        expr: "rate(x{job=~\"$job\"}[1m])"
      # annotation Starts
      - record: dashboard:query_2
        expr: "up"
      # variable job
      - record: dashboard:query_3
        expr: "up"
`
	for name, row := range map[string]struct {
		text, stdout, stderr string
		code                 int
	}{
		"whole":            {whole, rules, "", 0},
		"no query":         {`{"panels": []}`, "", "no query", 1},
		"no JSON":          {`panels`, "", "decode dashboard", 1},
		"another variable": {`{"templating": {"list": [{"name": "x", "type": "query", "definition": "metrics(up)"}]}}`, "", "variable x", 1},
	} {
		var stdout, stderr bytes.Buffer
		code := run(strings.NewReader(row.text), &stdout, &stderr)
		if code != row.code || stdout.String() != row.stdout || !strings.Contains(stderr.String(), row.stderr) {
			t.Errorf("%s: run = %d, %q, %q, want %d, %q, %q", name, code, stdout.String(), stderr.String(), row.code, row.stdout, row.stderr)
		}
	}
}
