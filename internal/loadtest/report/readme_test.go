package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// measuredFolder has the report of a scenario with three strategies, of which the last
// is refused more often than it sends.
func measuredFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	r := &Report{Scenario: "saturate", Versions: Versions{Chatclub: "0123456789ab"}, Started: sampleSaturate().Started, Runs: []Run{
		Fold(turns("chatclub", .98, .97, .99, .98, .98), 5), Fold(turns("static", .98, .98, .975, .98, .98), 5), Fold(turns("article", 1, 1, 1, 1, 1), 5),
	}}
	r.Runs[2].RefusedPerSent = new(7.66)
	r.Runs[0].Measures = []Measure{{Name: "longest silence", Unit: "s", Better: Lower, Value: new(.8)}}
	if err := Save(filepath.Join(dir, "saturate"), r); err != nil {
		t.Fatal(err)
	}
	rows := "chatclub = ours, article = theirs\n[limit](saturate/report.md) | saturate | quota_use\nsilence | saturate | longest silence\n"
	if err := os.WriteFile(filepath.Join(dir, "some.rows"), []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Tables are written between their marks, again and again the same; what stands
// around them stays.
func TestFill(t *testing.T) {
	t.Parallel()
	const document = "# A\n\n<!-- begin table saturate | | quota_use, refused_per_sent, inversions_per_sent -->\nold\n<!-- end -->\n\nB\n\n" +
		"<!-- begin rows some.rows -->\n<!-- end -->\n\n<!-- begin table zipf | chatclub | quota_use -->\n<!-- end -->\nC\n"
	const want = `# A

<!-- begin table saturate | | quota_use, refused_per_sent, inversions_per_sent -->
| run | quota used | refused per sent | inversions per sent |
| --- | ---: | ---: | ---: |
| chatclub | **98.00 %** (97.00 to 99.00 %) | **0.00 %** | **0.00 %** |
| static | **98.00 %** (97.50 to 98.00 %) | **0.00 %** | **0.00 %** |
| article | 100 % | 766 % (0.00 to 766 %) | 0.00 % |

[saturate](saturate/report.md): medians of 5 runs, revision 0123456789ab, 2026-01-02
<!-- end -->

B

<!-- begin rows some.rows -->
|  | ours | theirs |
| --- | ---: | ---: |
| [limit](saturate/report.md) | **98.00 %** | 100 % |
| silence | **0.80 s** | – |
<!-- end -->

<!-- begin table zipf | chatclub | quota_use -->
zipf is not measured yet: ` + "`make evidence EVIDENCE=zipf`" + `
<!-- end -->
C
`
	dir := measuredFolder(t)
	once, err := Fill(dir, []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(once)); diff != "" {
		t.Errorf("Fill (-want +got):\n%s", diff)
	}
	if twice, err := Fill(dir, once); err != nil || string(twice) != string(once) {
		t.Errorf("Fill of what it wrote = %v, another text", err)
	}
}

// What a table asks for and a report does not have is an error that names it.
func TestFillNamesFaults(t *testing.T) {
	t.Parallel()
	dir := measuredFolder(t)
	if err := os.WriteFile(filepath.Join(dir, "bad.rows"), []byte("chatclub = ours\nlimit | saturate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for document, want := range map[string]string{
		"<!-- begin table saturate | | quota_use -->\n":                            "has no end",
		"<!-- begin table saturate -->\n<!-- end -->\n":                            "want folder | runs | figures",
		"<!-- begin table saturate | redis | quota_use -->\n<!-- end -->\n":        `no run "redis"`,
		"<!-- begin table saturate | chatclub | quota -->\n<!-- end -->\n":         `no figure "quota"`,
		"<!-- begin rows none.rows -->\n<!-- end -->\n":                            "none.rows",
		"<!-- begin rows bad.rows -->\n<!-- end -->\n":                             "want text | folder | figure",
		"<!-- begin table saturate | | quota_use\n-->\nx\n-->\n<!-- end -->\n":     "has no end",
		"<!-- begin table ../saturate/report.md/x | | quota_use -->\n<!-- end -->": "has no end",
	} {
		if got, err := Fill(dir, []byte(document)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Fill of %q = %q, %v; want an error with %q", document, got, err, want)
		}
	}
}

// The picture shows the runs that there are, of whichever report.
func TestSaveSends(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "sends.png")
	ours := &Report{Runs: []Run{turns("chatclub", .9)[0].Run}}
	peers := &Report{Runs: []Run{turns("chatclub", .8)[0].Run, turns("bullmq", .8)[0].Run}}
	if err := SaveSends(file, []string{"chatclub", "article", "bullmq"}, ours, peers); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() < 1000 {
		t.Errorf("picture = %v, %v; want one", info, err)
	}
	if err := SaveSends(file, []string{"article"}, ours, peers); err == nil {
		t.Error("SaveSends without any run = nil, want an error")
	}
}
