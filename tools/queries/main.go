// Command queries prints every query of a Grafana dashboard as a recording rule,
// so that `promtool check rules` can parse them. It reads the dashboard from its
// standard input. Panels, annotations and variables have queries. Grafana's own
// variables become values.
//
//	queries < deploy/grafana/dashboards/chatclub.json
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

func main() { os.Exit(run(os.Stdin, os.Stdout, os.Stderr)) }

func run(stdin io.Reader, stdout, stderr io.Writer) int {
	raw, err := io.ReadAll(stdin)
	if err == nil {
		err = write(stdout, raw)
	}
	if err != nil {
		fmt.Fprintln(stderr, "queries:", err)
		return 1
	}
	return 0
}

// dashboard holds the queries of a dashboard.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ RefID, Expr string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct {
			Name, Type, Definition string
		}
	}
}

// labelValues is Grafana's function of a variable; it is not of PromQL.
var labelValues = regexp.MustCompile(`^label_values\((.*), \w+\)$`)

// write prints the rules. A dashboard without a query is an error: something else
// was read.
func write(w io.Writer, raw []byte) error {
	var d dashboard
	if err := json.Unmarshal(raw, &d); err != nil {
		return fmt.Errorf("decode dashboard: %w", err)
	}
	var b strings.Builder
	b.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	rules := 0
	add := func(where, expr string) {
		rules++
		expr = strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$__interval", "1m").Replace(expr)
		fmt.Fprintf(&b, "      # %s\n      - record: dashboard:query_%d\n        expr: %q\n", where, rules, expr)
	}
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			add(fmt.Sprintf("panel %d %s, %s", p.ID, p.Title, t.RefID), t.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		add("annotation "+a.Name, a.Expr)
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil {
			return fmt.Errorf("variable %s: %q is not label_values(query, label)", v.Name, v.Definition)
		}
		add("variable "+v.Name, m[1])
	}
	if rules == 0 {
		return errors.New("the dashboard has no query")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
