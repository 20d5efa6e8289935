package readme

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"chatclub/internal/app"
	"chatclub/internal/core"
	"chatclub/internal/dispatch"
	"chatclub/internal/excess"
	"chatclub/internal/queue"
	"chatclub/internal/queue/memory"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/rooms"
	"chatclub/internal/sender"
	"chatclub/internal/service"
	"chatclub/internal/webhook"
)

const file = "../../README.md"

func TestSettingsTables(t *testing.T) {
	for name, text := range map[string]string{
		"settings webhook":    service.Markdown[app.WebhookSettings](),
		"settings core":       service.Markdown[app.CoreSettings](),
		"settings dispatcher": service.Markdown[app.DispatcherSettings](),
	} {
		Check(t, file, name, text)
	}
}

func TestMetricsTable(t *testing.T) { Check(t, file, "metrics", table(gather(t))) }

// What deploy/ asks for exists, and its dashboard shows all of the dispatcher's
// decisions.
func TestDeployKnowsTheMetrics(t *testing.T) {
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
	known := make(map[string]bool) // metric, label and value
	for _, f := range gather(t) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				known[f.GetName()+" "+l.GetName()+" "+l.GetValue()] = true
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
		known["up job "+job[1]] = true
	}
	asked := regexp.MustCompile(`\b(\w+?)(?:_bucket)?\{(\w+)(?:=|!=|=~|!~)"([^"]*)"\}`).FindAllStringSubmatch(read("alerts.yml"), -1)
	if len(asked) == 0 {
		t.Error("found no label in alerts.yml, want some")
	}
	for _, a := range asked {
		for value := range strings.SplitSeq(a[3], "|") {
			if series := a[1] + " " + a[2] + " " + value; !known[series] {
				t.Errorf("deploy/alerts.yml asks for %s, which there is not", series)
			}
		}
	}
}

// gather returns every metric of every program.
func gather(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	reg := prometheus.NewRegistry()
	log := slog.New(slog.DiscardHandler)
	top := queue.Topology{Prefix: "t", Lanes: 1}
	mem, err := memory.New(top)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	broker, err := rabbit.Open(rabbit.Config{URLs: []string{"amqp://127.0.0.1:1"}, Topology: top, Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	store, err := rooms.Open(rooms.Config{DatabaseURL: "sqlite::memory:"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	send, err := sender.New(sender.Config{
		BaseURL: "http://127.0.0.1:1", Tokens: sender.StaticTokens(nil), MaxInFlight: 1, CallTimeout: time.Second, Registerer: reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer send.Close()
	_, err = webhook.New(webhook.Config{Broker: mem, Topology: top, AppSecret: []byte("x"), VerifyToken: "x", Registerer: reg, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = core.New(core.Config{Broker: mem, Store: store, Registerer: reg}); err != nil {
		t.Fatal(err)
	}
	_, err = dispatch.New(dispatch.Config{
		Broker: mem, Sender: send, Gate: excess.New(excess.Config{}, time.Now()), Log: log, Registerer: reg,
		Prefetch: 1, MaxInFlight: 1, MaxAttempts: 1, MessageTTL: time.Second, ShutdownTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
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

// The packages in README's map are those that exist.
func TestPackageMap(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}}\t{{.Doc}}", "chatclub/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| package | what it is |\n| --- | --- |\n")
	for line := range strings.Lines(string(out)) {
		path, doc, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if doc == "" {
			t.Errorf("package %s has no comment", path)
		}
		// go doc's synopsis begins with "Package name" or "Command name".
		words := strings.SplitN(doc, " ", 3)
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.TrimPrefix(path, "chatclub/"), words[len(words)-1])
	}
	Check(t, file, "packages", b.String())
}

func TestCutNamesTheMissingSection(t *testing.T) {
	if _, _, _, err := cut("nothing", "x"); err == nil || !strings.Contains(err.Error(), "begin x") {
		t.Errorf("cut without section = %v, want an error that names it", err)
	}
	before, section, after, err := cut("a<!-- begin x -->b<!-- end x -->c", "x")
	if err != nil || before != "a<!-- begin x -->" || section != "b" || after != "<!-- end x -->c" {
		t.Errorf("cut = %q, %q, %q, %v", before, section, after, err)
	}
}
