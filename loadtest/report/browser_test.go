package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"chatclub/tools/program"
)

// seen is the report as a browser shows it.
type seen struct {
	Text    string
	Width   int   // of the page
	Colours []int // pixels that have a colour, of each chart: axes are grey
	Foreign int   // pictures, and scripts in the text
	Faults  []string
}

// probe opens what is folded, and tells the frame's parent what is there.
const probe = `<script>
const faults = [];
addEventListener("error", e => faults.push(e.message));
document.querySelectorAll("details").forEach(d => d.open = true);
setTimeout(() => {
	const colours = [...document.querySelectorAll("figure")].filter(f => f.clientWidth > 0).map(figure => {
		const c = figure.querySelector("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let p = 0; p < d.length; p += 4) n += d[p + 3] > 127 && Math.max(d[p], d[p + 1], d[p + 2]) - Math.min(d[p], d[p + 1], d[p + 2]) > 60;
		return n;
	});
	parent.postMessage({ Text: document.body.innerText, Width: document.documentElement.scrollWidth, Colours: colours,
		Foreign: document.querySelectorAll("img, main script").length, Faults: faults }, "*");
}, 500);
</script>`

// show opens a report in Chromium, in a frame of a width, without a network.
func show(t *testing.T, r *Report, width int, fragment string) (s seen) {
	t.Helper()
	browser, err := program.Browser()
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := WriteHTML(&page, r); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	outer := fmt.Sprintf(`<body><script>addEventListener("message", e => document.body.textContent = JSON.stringify(e.data))</script><iframe src="report.html%s" style="width:%dpx;height:900px;border:0"></iframe>`, fragment, width)
	for name, text := range map[string]string{"report.html": page.String() + probe, "outer.html": outer} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir="+filepath.Join(dir, "user"),
		"--window-size=1400,1000", "--virtual-time-budget=5000", "--dump-dom", "file://"+filepath.Join(dir, "outer.html")).Output()
	found := regexp.MustCompile(`(?s)<body>(.*)</body>`).FindSubmatch(out)
	if err != nil || found == nil || json.Unmarshal([]byte(html.UnescapeString(string(found[1]))), &s) != nil {
		t.Fatalf("Chromium: %v; it shows %.500s", err, out)
	}
	if len(s.Faults) > 0 || s.Width > width || s.Foreign > 0 {
		t.Errorf("the page is %d wide of %d, has %d foreign elements, and says %q; want none", s.Width, width, s.Foreign, s.Faults)
	}
	for i, n := range s.Colours {
		if n < 80 {
			t.Errorf("chart %d has %d pixels of a colour, want its lines", i, n)
		}
	}
	return s
}
