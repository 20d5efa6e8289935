package main

import (
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// newTable returns a table whose columns are two spaces apart. Flush prints it.
func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// printable returns s such that it cannot act on a terminal: anybody may have
// written a queue's content.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '�'
	}, s)
}
