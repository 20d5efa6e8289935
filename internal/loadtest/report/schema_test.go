package report

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const schemaFile = "../../../docs/report-schema.md"

// example returns the JSON between the marks of a section.
func example(t *testing.T, doc, name string) string {
	t.Helper()
	_, after, ok := strings.Cut(doc, "<!-- begin "+name+" -->\n```json\n")
	text, _, closed := strings.Cut(after, "```\n<!-- end "+name+" -->")
	if !ok || !closed {
		t.Fatalf("%s has no section %s", schemaFile, name)
	}
	return text
}

// The documented example is what is written, byte for byte, in both forms.
func TestSchemaExample(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	text := example(t, string(raw), "example")
	r, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatalf("Read of the example: %v", err)
	}
	if diff := cmp.Diff(text, string(written(t, Write, r))); diff != "" {
		t.Errorf("the example is not how it is written (-example +written):\n%s", diff)
	}
	if diff := cmp.Diff(example(t, string(raw), "compact"), string(written(t, WriteCompact, r))); diff != "" {
		t.Errorf("the compact example is not how it is written (-example +written):\n%s", diff)
	}
	if v := unset(reflect.ValueOf(*r), "report"); len(v) != 4 { // what nobody measured, and who has no process; also of the round
		t.Errorf("fields that the example does not show = %q, want two of the run and of its round: an unknown figure and one that is absent", v)
	}
}

// Every field has its place in the document's tables.
func TestSchemaNamesEveryField(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(raw), "## The compact form")
	for _, name := range fieldNames(reflect.TypeFor[Report]()) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not tell what %q is", schemaFile, name)
		}
	}
	if n := len(fieldNames(reflect.TypeFor[Report]())); n < 60 {
		t.Errorf("fields found = %d, want all of them: the test has gone blind", n)
	}
}

// fieldNames lists the JSON names of a type and of all that is in it.
func fieldNames(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return nil
	}
	var out []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out = append(out, name)
		}
		out = append(out, fieldNames(f.Type)...)
	}
	return out
}

// unset lists the fields that have no value, of first elements only.
func unset(v reflect.Value, path string) []string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return []string{path}
		}
		if v.Elem().Kind() != reflect.Struct {
			return nil // 0 is a figure
		}
		return unset(v.Elem(), path)
	case reflect.Slice:
		if v.Len() == 0 {
			return []string{path}
		}
		return unset(v.Index(v.Len()-1), path+"[]")
	case reflect.Struct:
		if _, ok := reflect.TypeAssert[time.Time](v); ok {
			return nil
		}
		var out []string
		for f, field := range v.Fields() {
			out = append(out, unset(field, path+"."+f.Name)...)
		}
		return out
	case reflect.String, reflect.Bool:
		if v.IsZero() {
			return []string{path}
		}
	default:
	}
	return nil
}

func TestThisMachine(t *testing.T) {
	t.Parallel()
	m := ThisMachine()
	if m.CPUs < 1 || m.OS == "" || m.Arch == "" {
		t.Errorf("ThisMachine() = %+v, want its system and its CPUs", m)
	}
	if m.OS == "linux" && (m.MemoryBytes < 1<<24 || m.Kernel == "") {
		t.Errorf("ThisMachine() = %+v, want its memory and its kernel on Linux", m)
	}
	if v := ThisBuild(); !strings.HasPrefix(v.Go, "go") && !strings.HasPrefix(v.Go, "devel") {
		t.Errorf("ThisBuild() = %+v, want the version of Go", v)
	}
	if got := procField([]byte("MemTotal:  16 kB\nmodel name\t: A CPU: fast\n"), "model name"); got != "A CPU: fast" {
		t.Errorf("procField = %q, want A CPU: fast", got)
	}
	if !bytes.Contains([]byte(m.String()), []byte(m.OS)) {
		t.Errorf("String() = %q, want the system in it", m)
	}
}
