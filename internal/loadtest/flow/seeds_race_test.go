//go:build race

package flow

import "time"

// Under the race detector a run takes six times as long. One seed, a tenth of
// the largest backlog and fewer replicas for the article's algorithm find the
// races that all of it would.
const (
	seedsPerRow  = 1
	mostMessages = 30_000
	mostArticle  = 1
	otherLength  = 8 * time.Second
	otherNames   = "static redis" // one without and one with a Redis
	longRun      = 40 * time.Second
)
