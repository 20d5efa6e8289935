//go:build !race

package flow

import "time"

const (
	// seedsPerRow is how many runs a row has, of which the worst counts.
	seedsPerRow = 3
	// mostMessages is the largest backlog that is tried.
	mostMessages = 300_000
	// mostArticle is the most replicas that the article's algorithm runs on: it
	// makes ten calls a message there.
	mostArticle = 16
	// otherLength is how long the other ways of sharing a limit are looked at.
	otherLength = 25 * time.Second
	// otherNames are those that are looked at; "" is all.
	otherNames = ""
	// longRun is how long a page is saturated to see what its owner reaches.
	longRun = 90 * time.Second
)
