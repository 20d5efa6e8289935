package app

import (
	"fmt"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Prometheus asks services that there are, on their admin ports.
func TestPrometheusKnowsTheServices(t *testing.T) {
	t.Parallel()
	var file struct {
		Jobs []struct {
			Name string `yaml:"job_name"`
			Path string `yaml:"metrics_path"`
			DNS  []struct {
				Names []string
				Port  int
			} `yaml:"dns_sd_configs"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(document(t, "deploy/prometheus.yml")), &file); err != nil {
		t.Fatal(err)
	}
	c, programs := readCompose(t, "docker-compose.yml"), knownPrograms(t)
	jobs := make(map[string]bool)
	for _, job := range file.Jobs {
		jobs[job.Name] = true
		if job.Name == "rabbitmq" { // not ours
			if fmt.Sprint(job.Static) != "[{[rabbitmq:15692]}]" {
				t.Errorf("prometheus.yml asks RabbitMQ at %v", job.Static)
			}
			continue
		}
		if len(job.DNS) == 0 {
			t.Errorf("prometheus.yml does not find the replicas of %s by DNS", job.Name)
		}
		for _, d := range job.DNS {
			for _, name := range d.Names {
				s, ok := c.Services[name]
				if !ok || s.program() != job.Name {
					t.Errorf("prometheus.yml: job %s asks %s, which runs another program or is not there", job.Name, name)
					continue
				}
				is := started{place: "prometheus.yml, " + job.Name, program: job.Name, settings: settings(s), ports: []int{d.Port}, paths: []string{"/metrics"}}
				if job.Path != "" {
					is.paths = []string{job.Path}
				}
				report(t, is.faults(programs))
			}
		}
	}
	for _, name := range []string{"webhook", "core", "dispatcher", "rabbitmq"} {
		if !jobs[name] {
			t.Errorf("prometheus.yml has no job %s, which alerts ask for", name)
		}
	}
}
