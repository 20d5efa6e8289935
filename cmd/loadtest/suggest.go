package main

import "fmt"

// suggest is a question to whoever has mistyped one of the names, with a space
// before it; "" if none is near.
func suggest(typed string, names []string) string {
	near, least := "", len(typed)/3+1 // a letter in three, and one more
	for _, name := range names {
		if d := distance(typed, name); d <= least && d < max(len(typed), len(name)) {
			near, least = name, d-1
		}
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", near)
}

// distance is Levenshtein's: how many letters must be inserted, deleted or
// replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the table, for the letters of a so far
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
