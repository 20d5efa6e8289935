// Package parts embeds the parts that pages have in common: phones, charts, the
// stream, and the style sheet of both. The page of the fake platform is made of
// them. Other pages about the platform may be, too: serve the files beside the
// page's own scripts, under one path.
package parts

import "embed"

// Files has the parts. Each is a file in its root.
//
//go:embed *.js *.css *.svg
var Files embed.FS
