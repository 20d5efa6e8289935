package app

import (
	"encoding/json"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// images returns which programs each target of the Dockerfile has.
func images(t *testing.T) map[string][]string {
	t.Helper()
	programs := make(map[string][]string)
	for _, stage := range regexp.MustCompile(`(?m)^FROM `).Split(document(t, "Dockerfile"), -1)[1:] {
		first, rest, _ := strings.Cut(stage, "\n")
		fields := strings.Fields(strings.ReplaceAll(first, "--platform=$BUILDPLATFORM ", ""))
		from, name := fields[0], fields[2]
		programs[name] = append(programs[name], programs[from]...)
		for _, m := range regexp.MustCompile(`\./((?:cmd|tools)/\w+)`).FindAllStringSubmatch(rest, -1) {
			module := root
			if m[1] == "cmd/loadtest" {
				module = filepath.Join(root, "loadtest")
			}
			if _, err := os.Stat(filepath.Join(module, m[1])); err != nil {
				t.Errorf("Dockerfile builds ./%s: %v", m[1], err)
			}
			programs[name] = append(programs[name], path.Base(m[1]))
		}
		for _, m := range regexp.MustCompile(`COPY --from=(\S+) \S*/bin/ `).FindAllStringSubmatch(rest, -1) {
			programs[name] = append(programs[name], programs[m[1]]...)
		}
	}
	return programs
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	have := images(t)
	for _, program := range []string{"webhook", "core", "dispatcher", "chatclubctl", "probe"} {
		if !slices.Contains(have["production"], program) || !slices.Contains(have["demo"], program) {
			t.Errorf("the images lack %s: they have %v", program, have)
		}
	}
	for _, program := range []string{"fakeapi", "loadtest", "chatclub"} {
		if slices.Contains(have["production"], program) || !slices.Contains(have["demo"], program) {
			t.Errorf("%s must be in the demonstration's image alone: they have %v", program, have)
		}
	}
	text := document(t, "Dockerfile")
	for _, m := range regexp.MustCompile(`(?m)^CMD \["(\w+)"`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(have["demo"], m[1]) {
			t.Errorf("Dockerfile starts %s, which no image has", m[1])
		}
	}
	check := regexp.MustCompile(`HEALTHCHECK [^[]*CMD (\[.*\])`).FindStringSubmatch(text)
	var command []string
	if check == nil || json.Unmarshal([]byte(check[1]), &command) != nil {
		t.Fatal("the Dockerfile has no health check")
	}
	for _, program := range []string{"webhook", "core", "dispatcher"} {
		known := knownPrograms(t)
		s := started{place: "Dockerfile", program: program, settings: required(known[program])}
		if port, page, ok := probed(command); ok {
			s.ports, s.paths = []int{port}, []string{page}
		} else {
			t.Errorf("Dockerfile: the health check %v is no probe of an address", command)
		}
		report(t, s.faults(known))
	}
	// A frontend of its own would have to be fetched from a registry.
	if strings.Contains(text, "# syntax") {
		t.Error("the Dockerfile asks for a frontend of its own")
	}
}

// Whatever builds a release links the version into variables that there are.
func TestLinkedNamesExist(t *testing.T) {
	t.Parallel()
	source := document(t, "internal/service/registry.go")
	for _, file := range []string{"Dockerfile", ".goreleaser.yaml"} {
		found := regexp.MustCompile(`-X (\S+)\.(\w+)=`).FindAllStringSubmatch(document(t, file), -1)
		if len(found) < 2 {
			t.Errorf("%s links %d variables, want the version and the revision", file, len(found))
		}
		for _, m := range found {
			if m[1] != "chatclub/internal/service" || !regexp.MustCompile(`(?m)^var .*\b`+m[2]+`\b`).MatchString(source) {
				t.Errorf("%s links %s.%s, which there is not", file, m[1], m[2])
			}
		}
	}
}

// In a release's archive no folder has the name of a program, which lies beside it.
func TestArchivesUnpack(t *testing.T) {
	t.Parallel()
	var release struct {
		Archives []struct {
			IDs   []string
			Files []any
		}
	}
	if err := yaml.Unmarshal([]byte(document(t, ".goreleaser.yaml")), &release); err != nil || len(release.Archives) < 2 {
		t.Fatalf("the archives of .goreleaser.yaml: %+v, %v", release.Archives, err)
	}
	for _, a := range release.Archives {
		for _, f := range a.Files {
			name, _ := f.(string)
			if m, ok := f.(map[string]any); ok {
				if name, ok = m["dst"].(string); !ok {
					name = path.Base(m["src"].(string)) // strip_parent
				}
			}
			if first, _, _ := strings.Cut(name, "/"); name == "" || slices.Contains(a.IDs, first) {
				t.Errorf("the archive of %v has %q, want no name of a program", a.IDs, name)
			}
		}
	}
}

// probed returns the address that a health check asks for, if it is a call of probe.
func probed(test []string) (port int, page string, ok bool) {
	test = slices.DeleteFunc(slices.Clone(test), func(s string) bool { return s == "CMD" })
	if len(test) != 2 || test[0] != "probe" {
		return 0, "", false
	}
	u, err := url.Parse(test[1])
	if err != nil {
		return 0, "", false
	}
	port, err = strconv.Atoi(u.Port())
	return port, u.Path, err == nil
}
