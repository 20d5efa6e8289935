package app

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"chatclub/tools/program"
)

// root is the module's folder.
const root = "../.."

// Every document's links lead to files that exist, and to headings in them. A
// link that is named like a test leads to that test.
func TestLinks(t *testing.T) {
	t.Parallel()
	files := documents(t)
	if len(files) < 20 {
		t.Fatalf("found %d documents, want those of the whole repository", len(files))
	}
	for _, file := range files {
		for _, fault := range linkFaults(os.DirFS(root), file, document(t, file)) {
			t.Errorf("%s: %s", file, fault)
		}
	}
}

// ARCHITECTURE.md says of every package of the product what it guarantees, and
// of no other.
func TestMapOfPackages(t *testing.T) {
	t.Parallel()
	list, err := program.Run(t.Context(), program.Command{Path: "go", Args: []string{"list", "-f", "{{if .GoFiles}}{{.ImportPath}}{{end}}", "chatclub/internal/..."}})
	if err != nil {
		t.Fatal(err)
	}
	helper := regexp.MustCompile(`^internal/(article|machine|tools|e2e|flow|sim|browsertest|chaos|demo|queue/leftover|deadletter|replicas)\b|test$`)
	exist := make(map[string]bool)
	for path := range strings.FieldsSeq(list.Stdout) {
		if path = strings.TrimPrefix(path, "chatclub/"); !helper.MatchString(path) {
			exist[path] = true
		}
	}
	sameNames(t, "packages of the product", exist, firstColumn(document(t, "ARCHITECTURE.md"), "`(internal/[a-z/]+)`"))
}

// The runbook has a heading for every alert, to which the alert leads. Every alert
// has a situation in which it fires, and one in which it does not.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	alerts := document(t, "deploy/alerts.yml")
	exist := names(alerts, `(?m)^ +- alert: (\w+)$`)
	sameNames(t, "headings of alerts", exist, names(document(t, "docs/runbook.md"), `(?m)^## (.+)$`))
	sameNames(t, "links of alerts", lower(exist), names(alerts, `(?m)^ +runbook_url: docs/runbook\.md#(\w+)$`))
	tests := document(t, "deploy/alerts_test.yml")
	for name := range exist {
		if n := len(regexp.MustCompile(`- name: "`+name+`: `).FindAllString(tests, -1)); n < 2 {
			t.Errorf("deploy/alerts_test.yml has %d situations of %s, want one in which it fires and one in which it does not", n, name)
		}
		if !strings.Contains(tests, `{alertname="`+name+`"}`) {
			t.Errorf("deploy/alerts_test.yml has no situation in which %s fires", name)
		}
	}
}

// names returns the matches of pattern's group in text.
func names(text, pattern string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

// lower returns the names as they are in the anchors of headings.
func lower(names map[string]bool) map[string]bool {
	out := make(map[string]bool)
	for name := range names {
		out[strings.ToLower(name)] = true
	}
	return out
}

// sameNames fails t for names that are only in one of the two sets.
func sameNames(t *testing.T, what string, exist, documented map[string]bool) {
	t.Helper()
	if len(exist) == 0 {
		t.Fatalf("found no %s", what)
	}
	for _, name := range slices.Sorted(maps.Keys(exist)) {
		if !documented[name] {
			t.Errorf("%s: %s is missing", what, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !exist[name] {
			t.Errorf("%s: %s is there and should not be", what, name)
		}
	}
}

// firstColumn returns the matches of pattern's group in the first cells of tables.
func firstColumn(text, pattern string) map[string]bool {
	return names(text, `(?m)^\| `+pattern+` \|`)
}

func document(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents lists the repository's Markdown, but for that of test data.
func documents(t *testing.T) []string {
	t.Helper()
	files, err := fs.Glob(os.DirFS(root), "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"docs", "fakeapi"} {
		err := fs.WalkDir(os.DirFS(root), folder, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && e.Name() == "node_modules" {
				return fs.SkipDir
			}
			if err == nil && filepath.Ext(path) == ".md" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	link     = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	scheme   = regexp.MustCompile(`^[a-z]+:`)
	codePath = regexp.MustCompile("`((?:internal|cmd|fakeapi|docs|deploy)/[A-Za-z0-9_./-]+)`")
	testName = regexp.MustCompile("^`?((?:Test|Fuzz|Benchmark|Example)[A-Z]\\w*)`?$")
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// linkFaults says what is wrong with the links of a document, and with the paths
// that it names as code.
func linkFaults(in fs.FS, file, text string) (faults []string) {
	text = fence.ReplaceAllString(text, "")
	dir := filepath.Dir(file)
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if scheme.MatchString(m[2]) {
			continue
		}
		path, anchor, _ := strings.Cut(m[2], "#")
		target := text
		if path != "" {
			path = filepath.Join(dir, path)
			raw, err := fs.ReadFile(in, path)
			if info, dirErr := fs.Stat(in, path); err != nil && (dirErr != nil || !info.IsDir()) {
				faults = append(faults, fmt.Sprintf("%s does not exist", m[2]))
				continue
			}
			target = fence.ReplaceAllString(string(raw), "")
		}
		if anchor != "" && !slices.Contains(anchors(target), anchor) {
			faults = append(faults, fmt.Sprintf("%s: no heading has that anchor", m[2]))
		}
		if name := testName.FindStringSubmatch(m[1]); name != nil && !strings.Contains(target, "func "+name[1]+"(") {
			faults = append(faults, fmt.Sprintf("%s has no %s", m[2], name[1]))
		}
	}
	for _, m := range codePath.FindAllStringSubmatch(text, -1) {
		if _, err := fs.Stat(in, strings.TrimSuffix(m[1], "/")); err != nil {
			faults = append(faults, fmt.Sprintf("`%s` does not exist", m[1]))
		}
	}
	return faults
}

// anchors returns the anchors that GitHub makes of headings.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := link.ReplaceAllString(m[1], "$1")
		all = append(all, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(plain), ""), " ", "-"))
	}
	return all
}
