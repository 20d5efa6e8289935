// Package parts has the parts that pages have in common: phones, charts, the stream,
// and the style sheet of both. The page of the fake platform is made of them, and
// other pages about the platform may be, too. Their servers find all files by Find.
package parts

import (
	"embed"
	"io/fs"
	"path"
)

// files has the parts. Each is a file in its root.
//
//go:embed *.js *.css *.svg
var files embed.FS

// types are the content types of all files. The table of package mime is the machine's.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8",
}

// policy lets a page use what its server serves, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Find returns a file of a page with the headers of the answer: a part, or one of the
// page's own, which are in its folder static. The body is nil if there is none.
func Find(own fs.FS, name string) (body []byte, header map[string]string) {
	kind := types[path.Ext(name)]
	if kind == "" || !fs.ValidPath(name) {
		return nil, nil
	}
	body, err := fs.ReadFile(own, "static/"+name)
	if err != nil {
		body, err = files.ReadFile(name)
	}
	if err != nil {
		return nil, nil
	}
	return body, map[string]string{
		"Content-Type":            kind,
		"Content-Security-Policy": policy,
		"X-Content-Type-Options":  "nosniff",
		"Referrer-Policy":         "no-referrer",
		"Cache-Control":           "no-cache", // another version of the program has other files
	}
}
