package fakeapi

import (
	"fmt"
	"maps"
	"strings"
)

// tokens are the access tokens of the pages. The zero value follows the rule
// that every page whose id is made of digits has the token `token-PAGE`.
type tokens struct {
	byPage map[string]string // nil: the rule
	owners map[string]string // token → page
}

// newTokens makes tokens of the given map, nil for the rule.
func newTokens(byPage map[string]string) (tokens, error) {
	if byPage == nil {
		return tokens{}, nil
	}
	owners := make(map[string]string, len(byPage))
	for id, token := range byPage {
		if id == "" || token == "" || owners[token] != "" {
			return tokens{}, fmt.Errorf("page %.40q: page and token must not be empty, and each token its own", id)
		}
		owners[token] = id
	}
	return tokens{maps.Clone(byPage), owners}, nil
}

// of returns the token of a page, if the page exists.
func (t tokens) of(page string) (string, bool) {
	if t.byPage == nil {
		return "token-" + page, isDigits(page)
	}
	token, ok := t.byPage[page]
	return token, ok
}

// owner returns the page that a token belongs to.
func (t tokens) owner(token string) (string, bool) {
	if t.byPage == nil {
		page, ok := strings.CutPrefix(token, "token-")
		return page, ok && isDigits(page)
	}
	page, ok := t.owners[token]
	return page, ok
}

// authorize returns the page that the path of a call and its token name
// together. id is the path's page, or me.
func (t tokens) authorize(id []byte, token string) (page string, why *answer) {
	if token == "" {
		return "", errNoToken
	}
	owner, ok := t.owner(token)
	if !ok || string(id) != "me" && string(id) != owner {
		return "", errToken
	}
	return owner, nil
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != "" && len(s) <= 20
}
