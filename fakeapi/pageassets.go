package fakeapi

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

// The page: everything that it shows is in here, and it loads nothing from
// elsewhere.
//
//go:embed web
var web embed.FS

// pagePolicy lets the page use what this server serves, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// picturePolicy keeps a picture that is opened by itself from doing anything.
const picturePolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

// asset is one file of the page.
type asset struct {
	body             []byte
	contentType, csp string
}

// pageAsset returns the file behind a path, nil if there is none.
func pageAsset(address string) *asset {
	name, policy := "", pagePolicy
	switch {
	case address == "/":
		name = "web/index.html"
	case strings.HasPrefix(address, "/web/"), strings.HasPrefix(address, "/pictures/"):
		name, policy = strings.TrimPrefix(address, "/"), picturePolicy
		if !strings.HasPrefix(name, "web/") {
			name = "web/" + name
		}
	}
	if name == "" || !fs.ValidPath(name) {
		return nil
	}
	body, err := web.ReadFile(name)
	if err != nil {
		return nil // there is none, or it is a folder
	}
	return &asset{body: body, contentType: contentType(path.Ext(name)), csp: policy}
}

// contentType is by our own table: that of the mime package is the machine's.
func contentType(ext string) string {
	switch ext {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}

// isPicture tells whether there is a built-in picture of that name.
func isPicture(name string) bool { return pageAsset("/pictures/"+name+".svg") != nil }

func (p *Phones) pictureURL(name string) string { return p.cfg.BaseURL + "/pictures/" + name + ".svg" }

// pictureName is the built-in picture behind an address, or empty. A phone
// shows no others: the page loads nothing from elsewhere.
func (p *Phones) pictureName(address string) string {
	name, ok := strings.CutPrefix(address, p.cfg.BaseURL+"/pictures/")
	name, svg := strings.CutSuffix(name, ".svg")
	if !ok || !svg || !isPicture(name) {
		return ""
	}
	return name
}
