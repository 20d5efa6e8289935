package app

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"chatclub/internal/service"
)

// started is a manifest's start of one of our programs: a service of compose, a
// container of Kubernetes, a unit of systemd.
type started struct {
	place    string            // the manifest, and the place in it
	program  string            // in the image or the folder of programs
	settings map[string]string // variables; "" for a value that the manifest does not have, such as a secret's
	ports    []int             // that the manifest takes for the program's
	paths    []string          // that it asks the admin port for
}

// known holds the settings of one of our programs, its addresses among them.
type known struct {
	defaults map[string]string // of every setting; "" where there is none
	required []string          // settings without which it does not start
}

// knownPrograms returns every program, by docs/settings.md, which tests compare
// with the code. The settings of a program's commands are added up, and those that
// all of them want are required.
func knownPrograms(t *testing.T) map[string]known {
	t.Helper()
	section := regexp.MustCompile(`(?s)<!-- begin (\w+)[ \w]* -->\n(.*?)<!-- end `)
	setting := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (required|–|`[^`]*`) \\|")
	programs := make(map[string]known)
	for _, s := range section.FindAllStringSubmatch(document(t, "docs/settings.md"), -1) {
		if _, err := os.Stat(root + "/cmd/" + s[1]); err != nil {
			t.Errorf("docs/settings.md has settings of %s: %v", s[1], err)
		}
		p, seen := programs[s[1]]
		if !seen {
			p.defaults = make(map[string]string)
		}
		var required []string
		for _, m := range setting.FindAllStringSubmatch(s[2], -1) {
			if m[2] == "required" {
				required = append(required, m[1])
			}
			p.defaults[m[1]] = strings.Trim(m[2], "`")
			if !strings.HasPrefix(m[2], "`") {
				p.defaults[m[1]] = ""
			}
		}
		if seen {
			required = slices.DeleteFunc(required, func(name string) bool { return !slices.Contains(p.required, name) })
		}
		p.required = required
		programs[s[1]] = p
	}
	if len(programs) < 5 {
		t.Fatalf("found settings of %d programs in docs/settings.md, want those of all", len(programs))
	}
	return programs
}

// faults returns what the manifest says of its program that is not so: a program
// or a setting that there is not, a required setting that is missing, a port on
// which the program does not listen, a path that its admin port does not serve.
func (s started) faults(programs map[string]known) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: %s", s.place, fmt.Sprintf(format, args...)))
	}
	p, ok := programs[s.program]
	if !ok {
		fault("there is no program %q", s.program)
		return faults
	}
	for _, name := range slices.Sorted(maps.Keys(s.settings)) {
		if _, ok := p.defaults[name]; !ok {
			fault("%s has no setting %s", s.program, name)
		}
	}
	for _, name := range p.required {
		if _, ok := s.settings[name]; !ok {
			fault("%s needs %s", s.program, name)
		}
	}
	listens := p.ports(s.settings)
	for _, port := range s.ports {
		if !slices.Contains(listens, port) {
			fault("%s does not listen on port %d, but on %v", s.program, port, listens)
		}
	}
	admin := service.NewAdmin(service.AdminConfig{}).Handler()
	for _, path := range s.paths {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1"+path, nil))
		if w.Code != http.StatusOK {
			fault("the admin port of %s answers %d to GET %s", s.program, w.Code, path)
		}
	}
	return faults
}

// ports returns where the program listens: the ports of its settings *_ADDR.
func (p known) ports(settings map[string]string) (ports []int) {
	for _, name := range slices.Sorted(maps.Keys(p.defaults)) {
		if !strings.HasSuffix(name, "_ADDR") {
			continue
		}
		addr := p.defaults[name]
		if set := settings[name]; set != "" {
			addr = set
		}
		_, port, err := net.SplitHostPort(addr)
		n, numErr := strconv.Atoi(port)
		if err == nil && numErr == nil {
			ports = append(ports, n)
		}
	}
	return ports
}
