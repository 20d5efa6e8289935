// Package schema holds the JSON Schemas of docs/protocol.md, and serves them. The
// schemas of one version change only as the document allows.
package schema

import (
	"embed"
	"net/http"
)

// Files has a folder for each version of the protocol.
//
//go:embed v1
var Files embed.FS

// Version is that of the protocol that the programs of this source speak.
const Version = 1

// Pattern is the pattern of http.ServeMux for everything that Handler serves.
const Pattern = "/schema/"

// Handler serves the files below Pattern, such as /schema/v1/event.json.
func Handler() http.Handler {
	return http.StripPrefix(Pattern, http.FileServerFS(Files))
}
