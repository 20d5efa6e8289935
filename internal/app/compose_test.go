package app

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"chatclub/internal/queue"
	"chatclub/internal/service"
)

// composeFiles are the demonstration's and production's.
var composeFiles = []string{"docker-compose.yml", "compose.production.yml"}

// leastStop is the time that a program may take to stop: SHUTDOWN_TIMEOUT and 13 s.
const leastStop = 33 * time.Second

// compose is a compose file, as far as the tests look at it.
type compose struct {
	Services map[string]composeService
	Configs  map[string]struct{ Content string }
}

type composeService struct {
	Image       string
	Build       struct{ Target string }
	Command     []string
	Entrypoint  []string
	Environment map[string]string
	Ports       []string
	Profiles    []string
	DependsOn   yaml.Node `yaml:"depends_on"`
	Healthcheck struct {
		Test    []string
		Disable bool
	}
	StopGracePeriod string `yaml:"stop_grace_period"`
	MemLimit        string `yaml:"mem_limit"`
	CPUs            string
	Logging         struct{ Options map[string]string }
}

// ours reports whether the service runs one of our programs.
func (s composeService) ours() bool { return strings.HasPrefix(s.Image, "chatclub") }

// program returns which of our programs it runs.
func (s composeService) program() string {
	return append(slices.Clone(s.Entrypoint), s.Command...)[0]
}

func readCompose(t *testing.T, file string) compose {
	t.Helper()
	var c compose
	if err := yaml.Unmarshal([]byte(document(t, file)), &c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(c.Services) < 5 {
		t.Fatalf("%s has %d services, want those of the whole system", file, len(c.Services))
	}
	return c
}

var variable = regexp.MustCompile(`\$\{(\w+)(:-|:\?)([^}]*)\}`)

// expand gives every variable of compose its default, or where it must be set a value.
func expand(value string) string {
	return variable.ReplaceAllStringFunc(value, func(s string) string {
		if m := variable.FindStringSubmatch(s); m[2] == ":-" {
			return m[3]
		}
		return "given-for-this-test"
	})
}

func TestCompose(t *testing.T) {
	t.Parallel()
	programs, have := knownPrograms(t), images(t)
	for _, file := range composeFiles {
		c := readCompose(t, file)
		for _, name := range slices.Sorted(maps.Keys(c.Services)) {
			s := c.Services[name]
			place := file + ", " + name
			bounded(t, place, s)
			if !s.ours() {
				continue
			}
			target := s.Build.Target
			if target == "" {
				target = "production" // the last one
			}
			if !slices.Contains(have[target], s.program()) {
				t.Errorf("%s: the image %s has no %s", place, target, s.program())
			}
			if stop, err := time.ParseDuration(s.StopGracePeriod); err != nil || stop < leastStop {
				t.Errorf("%s: stop_grace_period %q, want at least %v", place, s.StopGracePeriod, leastStop)
			}
			is := started{place: place, program: s.program(), settings: settings(s)}
			for _, p := range s.Ports {
				is.ports = append(is.ports, number(t, place, p[strings.LastIndex(p, ":")+1:]))
			}
			if port, path, ok := probed(s.Healthcheck.Test); ok {
				is.ports, is.paths = append(is.ports, port), append(is.paths, path)
			}
			report(t, is.faults(programs))
			report(t, loads(place, is))
			report(t, addresses(place, is.settings, c, programs))
		}
	}
}

// bounded checks that the service has limits, and a health check.
func bounded(t *testing.T, place string, s composeService) {
	t.Helper()
	if s.MemLimit == "" || s.CPUs == "" || s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
		t.Errorf("%s: mem_limit %q, cpus %q, logging %v; want all", place, s.MemLimit, s.CPUs, s.Logging.Options)
	}
	if s.ours() && s.program() == "dispatcher" && s.CPUs != "0" {
		t.Errorf("%s: cpus %q, want 0: a dispatcher that is throttled sends late", place, s.CPUs)
	}
	checked := len(s.Healthcheck.Test) > 0 && !s.Healthcheck.Disable
	if tool := slices.Contains(s.Profiles, "tools"); checked == tool {
		t.Errorf("%s: has a health check is %t, want %t", place, checked, !tool)
	}
}

// settings returns the service's variables, but for those of Go itself.
func settings(s composeService) map[string]string {
	given := make(map[string]string)
	for name, value := range s.Environment {
		if name != "GOMEMLIMIT" {
			given[name] = expand(value)
		}
	}
	return given
}

// required returns a program's required settings without values.
func required(p known) map[string]string {
	given := make(map[string]string)
	for _, name := range p.required {
		given[name] = ""
	}
	return given
}

// loads returns the program's errors about its settings, where it is one of the
// three whose settings are known here.
func loads(place string, s started) (faults []string) {
	var err error
	switch s.program {
	case "webhook":
		_, err = service.Load[WebhookSettings](nil, s.settings, io.Discard)
	case "core":
		_, err = service.Load[CoreSettings](nil, s.settings, io.Discard)
	case "dispatcher":
		_, err = service.Load[DispatcherSettings](nil, s.settings, io.Discard)
	}
	if err != nil {
		faults = append(faults, place+": "+err.Error())
	}
	return faults
}

// addresses returns the errors of the addresses in settings: they lead to
// services of the file, on the ports on which these listen.
func addresses(place string, given map[string]string, c compose, programs map[string]known) (faults []string) {
	ports := map[string][]int{"rabbitmq": {5672}, "postgres": {5432}}
	for name, s := range c.Services {
		if s.ours() {
			ports[name] = programs[s.program()].ports(settings(s))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		u, err := url.Parse(given[name])
		if err != nil || u.Host == "" {
			continue
		}
		port, _ := strconv.Atoi(u.Port()) // 0 of one without
		if !slices.Contains(ports[u.Hostname()], port) {
			faults = append(faults, fmt.Sprintf("%s: %s leads to %s, where nobody listens", place, name, u.Host))
		}
		if name == "WEBHOOK_URL" && u.Path != "/webhook" {
			faults = append(faults, fmt.Sprintf("%s: %s leads to %s, want /webhook", place, name, u.Path))
		}
	}
	return faults
}

func number(t *testing.T, place, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Errorf("%s: %v", place, err)
	}
	return n
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

// Production has no fake, and no secret that everybody knows.
func TestProductionHasNoDefaultSecrets(t *testing.T) {
	t.Parallel()
	c := readCompose(t, "compose.production.yml")
	for name, s := range c.Services {
		if s.Build.Target == "demo" || strings.Contains(s.Image, "demo") || s.ours() && s.program() == "fakeapi" {
			t.Errorf("production has %s of the demonstration", name)
		}
	}
	text := document(t, "compose.production.yml")
	for _, secret := range []string{"APP_SECRET", "VERIFY_TOKEN", "RABBITMQ_PASSWORD", "POSTGRES_PASSWORD", "ADMIN_TOKEN", "PAGES_DIR"} {
		found := 0
		for _, m := range variable.FindAllStringSubmatch(text, -1) {
			if m[1] != secret {
				continue
			}
			found++
			if m[2] != ":?" || len(m[3]) < 10 {
				t.Errorf("production has %s, want that it must be given, and what it is", m[0])
			}
		}
		if found == 0 {
			t.Errorf("production does not ask for %s", secret)
		}
	}
	for _, port := range regexp.MustCompile(`(?m)^ +- ([\d.]*:?[^ ]+:\d+)$`).FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(port[1], "127.0.0.1:") {
			t.Errorf("production opens %s to everybody", port[1])
		}
	}
}

// The policy bounds the dead letters and nothing else: messages that other queues refuse are
// tried again without end.
func TestPoliciesBoundDeadLetters(t *testing.T) {
	t.Parallel()
	var file struct {
		Policies []struct {
			Pattern, Name string
			Definition    map[string]any
		}
	}
	if err := json.Unmarshal([]byte(document(t, "deploy/rabbitmq/policies.json")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Policies) != 1 {
		t.Fatalf("policies.json has %d policies, want 1", len(file.Policies))
	}
	p := file.Policies[0]
	top := queue.Topology{Prefix: "chatclub", Partitions: 64}
	pattern := regexp.MustCompile(p.Pattern)
	if !pattern.MatchString(top.Dead()) {
		t.Errorf("the policy %s does not match %s", p.Pattern, top.Dead())
	}
	for _, other := range []string{top.Inbound(0), top.Outbound(1), "x" + top.Dead(), top.Dead() + ".x", "chatclub-dead"} {
		if pattern.MatchString(other) {
			t.Errorf("the policy %s matches %s", p.Pattern, other)
		}
	}
	for _, key := range []string{"max-length", "message-ttl", "overflow"} {
		if p.Definition[key] == nil {
			t.Errorf("the policy has no %s", key)
		}
	}
	if p.Definition["overflow"] != "drop-head" {
		t.Errorf("overflow = %v, want drop-head", p.Definition["overflow"])
	}
	for _, file := range composeFiles {
		if text := document(t, file); !strings.Contains(text, "/deploy/rabbitmq/policies.json:/etc/rabbitmq/definitions/") ||
			!strings.Contains(text, "load_definitions = /etc/rabbitmq/definitions\n") {
			t.Errorf("%s does not load the policies", file)
		}
	}
}
