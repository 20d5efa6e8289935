//go:build race

package flow

// raced says that the race detector is on.
const raced = true
