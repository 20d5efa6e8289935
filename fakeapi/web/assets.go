package web

import (
	"embed"
	"strings"

	"chatclub/fakeapi/web/parts"
)

// static holds the page's files beside its parts. It loads nothing from elsewhere.
//
//go:embed static
var static embed.FS

// findFile returns the file behind a path with its headers: the page itself, its parts
// under /web/, the pictures under /pictures/ and the icon. The body is nil if there is
// none.
func findFile(address string) (body []byte, header map[string]string) {
	switch address {
	case "/":
		return parts.Find(static, "index.html")
	case "/favicon.ico": // a browser asks for it on its own, beside what is no page
		return parts.Find(static, "icon.svg")
	}
	if name, ok := strings.CutPrefix(address, "/web/"); ok {
		return parts.Find(static, name)
	}
	if strings.HasPrefix(address, "/pictures/") {
		return parts.Find(static, address[1:])
	}
	return nil, nil
}

// isPicture reports whether there is a built-in picture of that name.
func isPicture(name string) bool {
	body, _ := parts.Find(static, "pictures/"+name+".svg")
	return body != nil
}

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
