package doctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chatclub/internal/service"
)

func TestTableOfSettings(t *testing.T) {
	t.Parallel()
	type sample struct {
		Name  string         `env:"NAME" envDefault:"x" doc:"A name | with a bar."`
		Token service.Secret `env:"TOKEN,required" doc:"A secret."`
		Wait  time.Duration  `env:"WAIT" envDefault:"2s" doc:"A wait."`
		On    bool           `env:"ON" doc:"A switch."`
		Log   service.LogSettings
	}
	want := "| name | default | meaning |\n| --- | --- | --- |\n" +
		"| `NAME` | `x` | A name \\| with a bar. |\n" +
		"| `TOKEN` | required | A secret. |\n" +
		"| `WAIT` | `2s` | A wait. |\n" +
		"| `ON` | – | A switch. |\n" +
		"| `LOG_LEVEL` | `info` | Least level that is logged (debug has a line for each message): debug, info, warn or error. |\n" +
		"| `LOG_FORMAT` | `text` | Form of the log lines: text or json. |\n"
	if diff := cmp.Diff(want, table(service.Table[sample]())); diff != "" {
		t.Errorf("table: -want +got\n%s", diff)
	}
}

func TestCutNamesTheMissingSection(t *testing.T) {
	t.Parallel()
	if _, _, _, err := cut("nothing", "x"); err == nil || !strings.Contains(err.Error(), "begin x") {
		t.Errorf("cut without section = %v, want an error that names it", err)
	}
	before, section, after, err := cut("a<!-- begin x -->b<!-- end x -->c", "x")
	if err != nil || before != "a<!-- begin x -->" || section != "b" || after != "<!-- end x -->c" {
		t.Errorf("cut = %q, %q, %q, %v", before, section, after, err)
	}
}

func TestSectionIsWritten(t *testing.T) {
	t.Setenv("UPDATE_DOCS", "1")
	file := filepath.Join(t.TempDir(), "doc.md")
	const long = "head\n<!-- begin x -->\na longer text than the new one\n<!-- end x -->\ntail\n"
	if err := os.WriteFile(file, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	Section(t, file, "x", "new\n\n")
	got, err := os.ReadFile(file)
	if want := "head\n<!-- begin x -->\nnew\n<!-- end x -->\ntail\n"; err != nil || string(got) != want {
		t.Errorf("file = %q, %v, want %q", got, err, want)
	}
}
