package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"chatclub/internal/deadletter"
	"chatclub/internal/message"
)

// sum is a count with its reasons, the most frequent first.
func sum(c deadletter.Counts) string {
	reasons := slices.SortedFunc(maps.Keys(c), func(a, b message.Reason) int {
		if c[a] != c[b] {
			return c[b] - c[a]
		}
		return strings.Compare(string(a), string(b))
	})
	var parts []string
	for _, r := range reasons {
		name := printable(string(r))
		if r == "" {
			name = "moved by the broker"
		}
		parts = append(parts, fmt.Sprintf("%d %s", c[r], name))
	}
	text := fmt.Sprintf("%d dead letters", c.Total())
	if c.Total() == 1 {
		text = "1 dead letter"
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}

// codes are the first and the last error code, which mostly are the same.
func codes(l deadletter.Letter) string {
	if l.FirstCode == l.LastCode {
		return l.FirstCode
	}
	return l.FirstCode + " " + l.LastCode
}
