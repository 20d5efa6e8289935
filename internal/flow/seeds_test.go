//go:build !race

package flow

const (
	// seedsPerRow is how many runs a row has, of which the worst counts.
	seedsPerRow = 3
	// mostMessages is the largest backlog that is tried.
	mostMessages = 300_000
	// mostArticle is the most replicas that the article's algorithm runs on: it
	// makes ten calls a message there.
	mostArticle = 16
)
