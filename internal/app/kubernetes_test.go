package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"chatclub/fakeapi"
	"chatclub/internal/queue"
)

// manifests is the folder whose objects `make manifests` builds and validates
// against their schemas. The tests here compare them with the programs.
const manifests = root + "/deploy/kubernetes"

// manifest is the part of an object or a kustomization that the tests read.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct{ Spec podSpec }

		// Of a ScaledObject.
		MaxReplicaCount int `yaml:"maxReplicaCount"`
		Triggers        []struct {
			Type       string
			MetricType string `yaml:"metricType"`
			Metadata   struct {
				Query            string
				IgnoreNullValues string `yaml:"ignoreNullValues"`
			}
		}
		Fallback struct{ Behavior string }

		// Of a Deployment.
		ProgressDeadlineSeconds int `yaml:"progressDeadlineSeconds"`

		// Of a RabbitMQ policy.
		Pattern    string
		Definition map[string]any
	}

	// Of a kustomization.
	Namespace          string
	ConfigMapGenerator []generated `yaml:"configMapGenerator"`
	SecretGenerator    []generated `yaml:"secretGenerator"`
}

type generated struct {
	Name            string
	Literals, Files []string
}

type podSpec struct {
	Containers                    []container
	TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
	Volumes                       []struct {
		Name   string
		Secret struct {
			SecretName string `yaml:"secretName"`
		}
	}
}

type container struct {
	Name, Image string
	Command     []string
	Env         []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe   probe `yaml:"startupProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	Resources    struct{ Limits struct{ Memory string } }
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// overlays are the folders, each with those that it takes its objects from.
func overlays() map[string][]string {
	return map[string][]string{
		"demo":       {"base", "overlays/demo"},
		"production": {"base", "overlays/production", "components/monitoring", "components/autoscaling"},
	}
}

// Every container of ours runs a program that there is, in the image that has it,
// with settings that it has and needs, the ports on which it listens, and probes of
// paths that its admin port serves.
func TestManifestsKnowThePrograms(t *testing.T) {
	t.Parallel()
	programs := knownPrograms(t)
	imageOf := map[string]string{"webhook": "chatclub", "core": "chatclub", "dispatcher": "chatclub", "fakeapi": "chatclub-demo"}
	compose := document(t, "docker-compose.yml")
	for overlay, folders := range overlays() {
		objects := readManifests(t, folders...)
		shared := literals(t, objects, "chatclub")
		ours := 0
		for name, pod := range pods(objects) {
			for _, c := range pod.Containers {
				place := overlay + "/" + name
				if len(c.Command) == 0 { // somebody else's, as in compose
					if !strings.Contains(compose, "image: "+c.Image+"\n") {
						t.Errorf("%s runs %s, which docker-compose.yml does not", place, c.Image)
					}
					continue
				}
				ours++
				program := c.Command[0]
				if c.Image != imageOf[program] || c.Image == "" {
					t.Errorf("%s runs %s from the image %q, want %q", place, program, c.Image, imageOf[program])
				}
				s := started{place: place, program: program, settings: settingsOf(c)}
				for setting, value := range shared {
					if _, has := programs[program].defaults[setting]; has && program != "fakeapi" {
						s.settings[setting] = value
					}
				}
				for _, port := range c.Ports {
					s.ports = append(s.ports, port.ContainerPort)
					if want := programs[program].defaults["ADMIN_ADDR"]; port.Name == "admin" && want != fmt.Sprint(":", port.ContainerPort) {
						t.Errorf("%s: its port admin is %d, want that of %s", place, port.ContainerPort, want)
					}
				}
				for kind, p := range map[string]probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
					s.paths = append(s.paths, p.HTTPGet.Path)
					want := "/healthz"
					if kind == "readiness" {
						want = "/readyz"
					}
					if p.HTTPGet.Port != "admin" || p.HTTPGet.Path != want {
						t.Errorf("%s: its %s probe asks %s for %s, want admin for %s", place, kind, p.HTTPGet.Port, p.HTTPGet.Path, want)
					}
				}
				for _, fault := range s.faults(programs) {
					t.Error(fault)
				}
			}
		}
		if want := map[string]int{"demo": 4, "production": 3}[overlay]; ours != want {
			t.Errorf("%s has %d containers of ours, want %d", overlay, ours, want)
		}
		for setting := range shared {
			known := 0
			for _, program := range []string{"webhook", "core", "dispatcher"} {
				if _, has := programs[program].defaults[setting]; has {
					known++
				}
			}
			if known == 0 {
				t.Errorf("%s: the ConfigMap has %s, which is no setting of a program", overlay, setting)
			}
		}
	}
}

// A secret that a pod asks for is made by the overlay, by RabbitMQ's operator, or
// by the operator of the deployment, whom docs/kubernetes.md tells how.
func TestManifestsKnowTheSecrets(t *testing.T) {
	t.Parallel()
	told := make(map[string]bool)
	create := regexp.MustCompile(`kubectl -n chatclub create secret generic (\S+)((?: *\\?\s+--from-(?:literal|file)=\S+)+)`)
	key := regexp.MustCompile(`--from-(?:literal|file)=([\w.-]+)`)
	for _, m := range create.FindAllStringSubmatch(document(t, "docs/kubernetes.md"), -1) {
		for _, k := range key.FindAllStringSubmatch(m[2], -1) {
			told[m[1]+" "+k[1]] = true
		}
	}
	for overlay, folders := range overlays() {
		objects := readManifests(t, folders...)
		made := map[string]bool{"rabbitmq-default-user connection_string": true}
		if overlay == "production" {
			maps.Copy(made, told)
		}
		for _, o := range objects {
			for _, g := range o.SecretGenerator {
				for _, entry := range slices.Concat(g.Literals, g.Files) {
					name, _, _ := strings.Cut(entry, "=")
					made[g.Name+" "+name] = true
				}
			}
		}
		asked := make(map[string]bool)
		for name, pod := range pods(objects) {
			volumes := make(map[string]string)
			for _, v := range pod.Volumes {
				volumes[v.Name] = v.Secret.SecretName
			}
			for _, c := range pod.Containers {
				for _, e := range c.Env {
					if ref := e.ValueFrom.SecretKeyRef; ref.Name != "" {
						asked[ref.Name+" "+ref.Key] = true
					}
					if e.Name != "PAGES_FILE" {
						continue
					}
					for _, m := range c.VolumeMounts {
						if m.MountPath == path.Dir(e.Value) {
							asked[volumes[m.Name]+" "+path.Base(e.Value)] = true
						}
					}
					if !asked["chatclub-pages "+path.Base(e.Value)] {
						t.Errorf("%s/%s: no volume has PAGES_FILE %s", overlay, name, e.Value)
					}
				}
			}
		}
		for secret := range asked {
			if !made[secret] {
				t.Errorf("%s asks for the secret and key %s, which nobody makes", overlay, secret)
			}
		}
		if len(asked) < 6 {
			t.Errorf("%s asks for %d secrets, want those of the programs", overlay, len(asked))
		}
		if overlay == "production" {
			for secret := range told {
				if !asked[secret] {
					t.Errorf("docs/kubernetes.md has %s made, which nobody asks for", secret)
				}
			}
		}
	}
}

// A program has the time to stop that it has in compose, besides the time for which
// the gateway goes on sending to it; and Go collects below the limit of memory.
func TestManifestsLetProgramsStop(t *testing.T) {
	t.Parallel()
	grace := regexp.MustCompile(`stop_grace_period: (\w+)`).FindStringSubmatch(document(t, "docker-compose.yml"))
	if grace == nil {
		t.Fatal("docker-compose.yml has no stop_grace_period")
	}
	want, err := time.ParseDuration(grace[1])
	if err != nil {
		t.Fatal(err)
	}
	for overlay, folders := range overlays() {
		for name, pod := range pods(readManifests(t, folders...)) {
			for _, c := range pod.Containers {
				if len(c.Command) == 0 {
					continue
				}
				got := time.Duration(pod.TerminationGracePeriodSeconds-c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
				if got < want {
					t.Errorf("%s/%s may take %s to stop, want %s as in docker-compose.yml", overlay, name, got, want)
				}
				for _, e := range c.Env {
					if e.Name != "GOMEMLIMIT" {
						continue
					}
					if share := float64(bytesOf(t, e.Value)) / float64(bytesOf(t, c.Resources.Limits.Memory)); share < 0.85 || share > 0.95 {
						t.Errorf("%s/%s: GOMEMLIMIT %s is %.2f of the limit %s, want nine tenths", overlay, name, e.Value, share, c.Resources.Limits.Memory)
					}
				}
			}
		}
	}
}

// The pages of the demo have the tokens that fakeapi gives them.
func TestDemoPagesAreThoseOfFakeapi(t *testing.T) {
	t.Parallel()
	var fake map[string]string
	for _, pod := range pods(readManifests(t, "overlays/demo")) {
		if c := pod.Containers[0]; c.Name == "fakeapi" {
			fake = settingsOf(c)
		}
	}
	first, err := strconv.Atoi(fake["FIRST_PAGE"])
	if err != nil {
		t.Fatal(err)
	}
	count, err := strconv.Atoi(fake["PAGES"])
	if err != nil {
		t.Fatal(err)
	}
	api, err := fakeapi.New(fakeapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for i := range count {
		id := fakeapi.PageID(first + i)
		want[id], _ = api.Token(id)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(document(t, "deploy/kubernetes/overlays/demo/pages.json")), &got); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("pages.json of the demo = %v, want %v", got, want)
	}
}

// The rollout of a core that migrates fails no sooner than who waits for it gives up.
func TestMigrationHasTime(t *testing.T) {
	t.Parallel()
	waits := regexp.MustCompile(`rollout status deployment/core --timeout=(\w+)`).FindStringSubmatch(document(t, "docs/kubernetes.md"))
	if waits == nil {
		t.Fatal("docs/kubernetes.md does not say how to wait for core")
	}
	want, err := time.ParseDuration(waits[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range readManifests(t, "base") {
		if o.Kind != "Deployment" || o.Metadata.Name != "core" {
			continue
		}
		if got := time.Duration(o.Spec.ProgressDeadlineSeconds) * time.Second; got < want {
			t.Errorf("core has the progress deadline %v, want %v", got, want)
		}
		return
	}
	t.Error("found no core")
}

// KEDA asks for metrics that there are, of the namespace and queue that the
// production overlay has, and never for more dispatchers than partitions.
func TestScalersKnowTheMetrics(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, f := range gather(t) {
		known[f.GetName()] = true
	}
	objects := readManifests(t, overlays()["production"]...)
	shared := literals(t, objects, "chatclub")
	partitions, err := strconv.Atoi(shared["PARTITIONS"])
	if err != nil {
		t.Fatal(err)
	}
	inbound := queue.Topology{Prefix: shared["QUEUE_PREFIX"], Partitions: partitions}.Inbounds()
	namespace := ""
	for _, o := range objects {
		if o.Namespace != "" {
			namespace = o.Namespace
		}
	}
	asked := make(map[string]bool)
	for _, o := range objects {
		if o.Kind != "ScaledObject" {
			continue
		}
		if o.Metadata.Name == "dispatcher" && o.Spec.MaxReplicaCount > partitions {
			t.Errorf("up to %d dispatchers are started, want at most the %d partitions", o.Spec.MaxReplicaCount, partitions)
		}
		if o.Spec.Fallback.Behavior != "currentReplicas" {
			t.Errorf("the scaler of %s has the fallback %q, want currentReplicas", o.Metadata.Name, o.Spec.Fallback.Behavior)
		}
		for _, trigger := range o.Spec.Triggers {
			if m := trigger.Metadata; trigger.Type == "prometheus" && (m.IgnoreNullValues != "false" || trigger.MetricType != "AverageValue") {
				t.Errorf("the scaler of %s asks for %s as %s, with ignoreNullValues %q: want no answer to be none, which the fallback takes",
					o.Metadata.Name, m.Query, trigger.MetricType, m.IgnoreNullValues)
			}
			for _, m := range regexp.MustCompile(`\b((?:chatclub|rabbitmq)_\w+)\{(.*?)\}`).FindAllStringSubmatch(trigger.Metadata.Query, -1) {
				asked[o.Metadata.Name+" "+m[1]] = true
				if strings.HasPrefix(m[1], "chatclub_") && !known[m[1]] {
					t.Errorf("the scaler of %s asks for %s, which no program counts", o.Metadata.Name, m[1])
				}
				if !strings.Contains(m[2], `namespace="`+namespace+`"`) {
					t.Errorf("the scaler of %s asks for %s of {%s}, want the namespace %s", o.Metadata.Name, m[1], m[2], namespace)
				}
				if !strings.HasPrefix(m[1], "rabbitmq_") {
					continue
				}
				queues := regexp.MustCompile(`queue=~"(.*?)"`).FindStringSubmatch(m[2])
				if queues == nil || slices.ContainsFunc(inbound, func(name string) bool { return !regexp.MustCompile("^(?:" + queues[1] + ")$").MatchString(name) }) {
					t.Errorf("the scaler of %s asks for %s of {%s}, want all of %s to %s", o.Metadata.Name, m[1], m[2], inbound[0], inbound[len(inbound)-1])
				}
			}
		}
	}
	sameNames(t, "metrics to scale on", map[string]bool{
		"dispatcher chatclub_dispatch_in_flight": true, "dispatcher chatclub_dispatch_calls_max": true,
		"core rabbitmq_detailed_queue_messages_ready": true,
	}, asked)
}

// The policies of the production overlay reach the queues that the programs
// declare: all are kept from a lower delivery limit, and only dead letters are ever
// dropped.
func TestPoliciesReachTheQueues(t *testing.T) {
	t.Parallel()
	objects := readManifests(t, overlays()["production"]...)
	top := queue.Topology{Prefix: literals(t, objects, "chatclub")["QUEUE_PREFIX"], Partitions: 64}
	policies := 0
	for _, o := range objects {
		if o.Kind != "Policy" {
			continue
		}
		policies++
		reaches := regexp.MustCompile(o.Spec.Pattern).MatchString
		bounds := o.Spec.Definition["max-length"] != nil
		for _, spec := range top.Specs() {
			if want := !bounds || spec.Name == top.Dead(); reaches(spec.Name) != want {
				t.Errorf("policy %s reaches %s: %t, want %t", o.Metadata.Name, spec.Name, !want, want)
			}
		}
		if got := o.Spec.Definition["delivery-limit"]; got != 1_000_000 {
			t.Errorf("policy %s has the delivery limit %v, want that of the queues, 1000000", o.Metadata.Name, got)
		}
	}
	if policies != 2 {
		t.Errorf("found %d policies, want one of all queues and one of dead letters", policies)
	}
}

// The PrometheusRule has the groups of alerts.yml, and nothing else has to be kept
// equal by hand. `make docs` writes it.
func TestPrometheusRuleDoc(t *testing.T) {
	t.Parallel()
	const head = `# Written by ` + "`make docs`" + ` from deploy/alerts.yml: change that.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: chatclub}
spec:
`
	alerts := document(t, "deploy/alerts.yml")
	at := strings.Index(alerts, "groups:\n")
	if at < 0 {
		t.Fatal("alerts.yml has no groups")
	}
	want := head + regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(alerts[at:], "  $1")
	file := filepath.Join(manifests, "components/monitoring/prometheusrule.yaml")
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) == want {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Errorf("%s is not what deploy/alerts.yml says; make docs writes it", file)
		return
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readManifests returns the objects and kustomizations of folders, in order.
func readManifests(t *testing.T, folders ...string) (objects []manifest) {
	t.Helper()
	for _, folder := range folders {
		files, err := fs.Glob(os.DirFS(filepath.Join(manifests, folder)), "*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("found no manifest in %s: %v", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(manifests, folder, file))
			if err != nil {
				t.Fatal(err)
			}
			decoder := yaml.NewDecoder(bytes.NewReader(text))
			for {
				var o manifest
				err := decoder.Decode(&o)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s/%s: %v", folder, file, err)
				}
				objects = append(objects, o)
			}
		}
	}
	return objects
}

// pods returns the pods of Deployments and StatefulSets by name. What a patch says
// of a container, which names no command, is added to it.
func pods(objects []manifest) map[string]podSpec {
	all := make(map[string]podSpec)
	for _, o := range objects {
		if o.Kind != "Deployment" && o.Kind != "StatefulSet" {
			continue
		}
		have, seen := all[o.Metadata.Name]
		if !seen {
			all[o.Metadata.Name] = o.Spec.Template.Spec
			continue
		}
		for _, patch := range o.Spec.Template.Spec.Containers {
			for i := range have.Containers {
				if have.Containers[i].Name == patch.Name {
					have.Containers[i].Env = append(have.Containers[i].Env, patch.Env...)
				}
			}
		}
	}
	return all
}

// settingsOf returns the variables of a container, but for those of Go itself.
func settingsOf(c container) map[string]string {
	settings := make(map[string]string)
	for _, e := range c.Env {
		if e.Name != "GOMEMLIMIT" {
			settings[e.Name] = e.Value
		}
	}
	return settings
}

// literals returns the values of a ConfigMap that kustomize generates.
func literals(t *testing.T, objects []manifest, name string) map[string]string {
	t.Helper()
	values := make(map[string]string)
	for _, o := range objects {
		for _, g := range o.ConfigMapGenerator {
			for _, entry := range g.Literals {
				if k, v, ok := strings.Cut(entry, "="); ok && g.Name == name {
					values[k] = v
				}
			}
		}
	}
	if len(values) == 0 {
		t.Fatalf("found no ConfigMap %s", name)
	}
	return values
}

// bytesOf reads a size as Go and as Kubernetes write it: 460MiB, 512Mi, 2Gi.
func bytesOf(t *testing.T, size string) int {
	t.Helper()
	m := regexp.MustCompile(`^(\d+)([MG])iB?$`).FindStringSubmatch(size)
	if m == nil {
		t.Fatalf("%q is no size in Mi or Gi", size)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n << map[string]int{"M": 20, "G": 30}[m[2]]
}
