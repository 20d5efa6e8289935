package app

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"chatclub/internal/app/doctest"
	"chatclub/internal/sender"
	"chatclub/internal/service"
)

func TestSettingsDoc(t *testing.T) {
	t.Parallel()
	for program, settings := range map[string][]service.Setting{
		"webhook":    service.Table[WebhookSettings](),
		"core":       service.Table[CoreSettings](),
		"dispatcher": service.Table[DispatcherSettings](),
	} {
		doctest.Settings(t, "../../docs/settings.md", program, settings)
	}
}

func TestMetricsDoc(t *testing.T) {
	t.Parallel()
	doctest.Section(t, "../../docs/metrics.md", "metrics", table(gather(t)))
}

// What deploy/ asks for exists, and its dashboard shows all of the dispatcher's
// decisions.
func TestDeployKnowsTheMetrics(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, f := range gather(t) {
		known[f.GetName()] = true
		if f.GetType() == dto.MetricType_HISTOGRAM {
			known[f.GetName()+"_bucket"], known[f.GetName()+"_count"], known[f.GetName()+"_sum"] = true, true, true
		}
	}
	name := regexp.MustCompile(`\bchatclub_[a-z_]+`)
	read := func(file string) string {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, asked := range name.FindAllString(string(text), -1) {
			if !known[asked] {
				t.Errorf("deploy/%s asks for %s, which no program counts", file, asked)
			}
		}
		return string(text)
	}
	read("alerts.yml")
	read("compose-test/run")
	dashboard := read("grafana/dashboards/chatclub.json")
	for _, f := range gather(t) {
		if n := f.GetName(); strings.HasPrefix(n, "chatclub_dispatch_") && !strings.Contains(dashboard, n) {
			t.Errorf("the dashboard does not show %s", n)
		}
	}
}

// An alert that asks for a label's value that is never counted, or for a job
// that Prometheus does not know, would never fire.
func TestAlertsKnowTheLabels(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool) // metric, label and value
	for _, f := range gather(t) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				known[f.GetName()+" "+l.GetName()+" "+l.GetValue()] = true
			}
			for _, b := range m.GetHistogram().GetBucket() { // Prometheus 2 writes 10, and Prometheus 3 writes 10.0
				known[fmt.Sprintf("%s le %v", f.GetName(), b.GetUpperBound())] = true
				known[fmt.Sprintf("%s le %.1f", f.GetName(), b.GetUpperBound())] = true
			}
		}
	}
	read := func(file string) string {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, job := range regexp.MustCompile(`job_name: (\w+)`).FindAllStringSubmatch(read("prometheus.yml"), -1) {
		known["job "+job[1]] = true
	}
	asked := regexp.MustCompile(`\b(\w+?)(?:_bucket)?\{(\w+)(?:=|!=|=~|!~)"([^"]*)"\}`).FindAllStringSubmatch(read("alerts.yml"), -1)
	if len(asked) == 0 {
		t.Error("found no label in alerts.yml, want some")
	}
	for _, a := range asked {
		if strings.HasPrefix(a[1], "rabbitmq_") { // not ours
			continue
		}
		for value := range strings.SplitSeq(a[3], "|") {
			series := a[1] + " " + a[2] + " " + value
			if a[2] == "job" {
				series = "job " + value
			}
			if !known[series] {
				t.Errorf("deploy/alerts.yml asks for %s, which there is not", series)
			}
		}
	}
}

// Every histogram is a native one, too, for a Prometheus that asks for these.
func TestHistogramsAreNativeToo(t *testing.T) {
	t.Parallel()
	found := 0
	for _, f := range gather(t) {
		if f.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		found++
		if h := f.GetMetric()[0].GetHistogram(); h.Schema == nil || len(h.GetBucket()) == 0 {
			t.Errorf("%s: native %t with %d classic buckets, want both", f.GetName(), h.Schema != nil, len(h.GetBucket()))
		}
	}
	if found == 0 {
		t.Error("found no histogram, want some")
	}
}

// gather returns every metric of ours in the three programs, sorted by name.
func gather(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	all := make(map[string]*dto.MetricFamily)
	add := func(start func(Options) (*Program, error)) {
		t.Helper()
		reg := prometheus.NewRegistry()
		p, err := start(Options{Registry: reg, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "chatclub_") {
				continue
			}
			if have := all[f.GetName()]; have != nil { // the broker's, which every program has
				f.Metric = append(have.GetMetric(), f.GetMetric()...)
			}
			all[f.GetName()] = f
		}
	}
	add(func(o Options) (*Program, error) {
		return NewWebhook(t.Context(), WebhookConfig{Settings: webhookSettings(t), Options: o})
	})
	add(func(o Options) (*Program, error) {
		return NewCore(t.Context(), CoreConfig{Settings: load[CoreSettings](t, "DATABASE_URL", "sqlite::memory:"), Options: o})
	})
	add(func(o Options) (*Program, error) {
		return NewDispatcher(t.Context(), DispatcherConfig{
			Settings: load[DispatcherSettings](t, "PAGES_FILE", "none"), Options: o, Tokens: sender.StaticTokens(nil),
		})
	})
	return slices.SortedFunc(maps.Values(all), func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// table lists metrics as Markdown, sorted by name.
func table(families []*dto.MetricFamily) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range families {
		labels := make(map[string][]string)
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(labels[l.GetName()], l.GetValue()) {
					labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
				}
			}
		}
		var text []string
		for name, values := range labels {
			slices.Sort(values)
			text = append(text, fmt.Sprintf("`%s`: %s", name, strings.Join(values, ", ")))
		}
		slices.Sort(text)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(text, "; "), f.GetHelp())
	}
	return b.String()
}
