package fakeapi

import "strings"

// Token returns the token of a page, `token-PAGE`, if the page exists: every page
// does whose id is made of digits.
func (*API) Token(page string) (string, bool) { return "token-" + page, isDigits(page) }

// authorize returns the page that the path of a call and its token name
// together. id is the path's page, or me.
func authorize(id []byte, token string) (page string, why *answer) {
	if token == "" {
		return "", errNoToken
	}
	owner, ok := strings.CutPrefix(token, "token-")
	if !ok || !isDigits(owner) || string(id) != "me" && string(id) != owner {
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
