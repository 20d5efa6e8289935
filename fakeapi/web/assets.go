package web

import (
	"embed"
	"io/fs"
	"path"
	"strings"

	"chatclub/fakeapi/web/parts"
)

// static holds what the page shows beside its parts. It loads nothing from elsewhere.
//
//go:embed static
var static embed.FS

// pagePolicy lets the page use what this server serves, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// picturePolicy keeps a picture that is opened by itself from doing anything.
const picturePolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

// asset is one file of the page.
type asset struct {
	body                []byte
	contentType, policy string
}

// findAsset returns the file behind a path, nil if there is none: the page
// itself, its parts under /web/, the pictures under /pictures/ and the icon.
func findAsset(address string) *asset {
	name, policy := "", picturePolicy
	switch {
	case address == "/":
		name, policy = "static/index.html", pagePolicy
	case address == "/favicon.ico": // a browser asks for it on its own, beside what is no page
		name, policy = "static/icon.svg", pagePolicy
	case strings.HasPrefix(address, "/web/"):
		name = "static/" + strings.TrimPrefix(address, "/web/")
	case strings.HasPrefix(address, "/pictures/"):
		name = "static" + address
	}
	if name == "" || !fs.ValidPath(name) {
		return nil
	}
	body, err := static.ReadFile(name)
	if err != nil {
		body, err = parts.Files.ReadFile(strings.TrimPrefix(name, "static/"))
	}
	if err != nil {
		return nil // there is none, or it is a folder
	}
	return &asset{body: body, contentType: contentType(path.Ext(name)), policy: policy}
}

// contentType uses a table of its own, because that of package mime is the
// machine's.
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

// isPicture reports whether there is a built-in picture of that name.
func isPicture(name string) bool { return findAsset("/pictures/"+name+".svg") != nil }

// pictureURL returns the address of a built-in picture.
func pictureURL(base, name string) string { return base + "/pictures/" + name + ".svg" }

// pictureName returns the name of the built-in picture behind an address, or
// "". A phone shows no other picture, because the page loads nothing from
// elsewhere.
func pictureName(base, address string) string {
	name, ok := strings.CutPrefix(address, base+"/pictures/")
	name, svg := strings.CutSuffix(name, ".svg")
	if !ok || !svg || !isPicture(name) {
		return ""
	}
	return name
}
