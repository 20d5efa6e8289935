package app

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// dashboard is the part of deploy/grafana/dashboards/chatclub.json that the tests read.
// `make alerts` has promtool parse its queries.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct{ Name, Type string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(document(t, "deploy/grafana/dashboards/chatclub.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The dashboard serves any data source, and each query is of the deployment, job
// and replica that are chosen.
func TestDashboardQueriesAreChosen(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	variables := make(map[string]bool)
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	sameNames(t, "variables of the dashboard", map[string]bool{
		"datasource": true, "namespace": true, "job": true, "instance": true, "runbook": true,
	}, variables)
	source := regexp.MustCompile(`"type": "prometheus",\s+"uid": "([^"]*)"`)
	for _, m := range source.FindAllStringSubmatch(document(t, "deploy/grafana/dashboards/chatclub.json"), -1) {
		if m[1] != "${datasource}" {
			t.Errorf("the dashboard asks the data source %q, want the variable", m[1])
		}
	}
	metric := regexp.MustCompile(`\b((?:chatclub|process|go|rabbitmq|fakeapi)_\w+)(\{[^}]*\})?`)
	queries := 0
	check := func(where, expr string) {
		for _, m := range metric.FindAllStringSubmatch(expr, -1) {
			queries++
			wanted := []string{`namespace=~"$namespace"`, `job=~"$job"`, `instance=~"$instance"`}
			if strings.HasPrefix(m[1], "rabbitmq_") || strings.HasPrefix(m[1], "fakeapi_") { // one for all jobs
				wanted = wanted[:1]
			}
			for _, w := range wanted {
				if !strings.Contains(m[2], w) {
					t.Errorf("%s asks for %s%s, want %s in it", where, m[1], m[2], w)
				}
			}
		}
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			check("panel "+p.Title, target.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		check("annotation "+a.Name, a.Expr)
	}
	if queries < 80 {
		t.Errorf("found %d metrics in the dashboard's queries, want those of all panels", queries)
	}
}

// A query for a label that the metric does not have, or for a value that is never
// counted, would show nothing.
func TestDashboardKnowsTheLabels(t *testing.T) {
	t.Parallel()
	labels := make(map[string]map[string]bool) // of a metric: "label" and "label=value"
	for _, f := range gather(t) {
		known := map[string]bool{"namespace": true, "job": true, "instance": true, "le": true}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				known[l.GetName()], known[l.GetName()+"="+l.GetValue()] = true, true
			}
		}
		labels[f.GetName()] = known
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			labels[f.GetName()+suffix] = known
		}
	}
	metric := regexp.MustCompile(`\b(chatclub_\w+)\{([^}]*)\}`)
	matcher := regexp.MustCompile(`(\w+)(=~|!=|!~|=)"([^"]*)"`)
	by := regexp.MustCompile(`\bby \(([^)]*)\)`)
	asked := 0
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			metrics := metric.FindAllStringSubmatch(target.Expr, -1)
			for _, m := range metrics {
				for _, is := range matcher.FindAllStringSubmatch(m[2], -1) {
					asked++
					wanted := is[1]
					if is[2] == "=" {
						wanted = is[1] + "=" + is[3]
					}
					if !labels[m[1]][wanted] {
						t.Errorf("panel %q asks %s for %s, which it has not", p.Title, m[1], wanted)
					}
				}
			}
			for _, m := range by.FindAllStringSubmatch(target.Expr, -1) {
				for label := range strings.SplitSeq(m[1], ", ") {
					for _, of := range metrics {
						if !labels[of[1]][label] {
							t.Errorf("panel %q groups %s by %s, which it has not", p.Title, of[1], label)
						}
					}
				}
			}
		}
	}
	if asked < 100 {
		t.Errorf("found %d labels in the dashboard, want those of all queries", asked)
	}
}
