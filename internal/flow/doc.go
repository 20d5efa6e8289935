// Package flow shows what the dispatcher does with a page's quota: its tests
// run several dispatchers against the judge of package fakeapi in virtual time,
// so that minutes of saturation, of replicas coming and going and of backlogs
// give exact figures in seconds. The dispatchers, the excess map and the sender
// are the real ones; the broker is package memory behind a network of 0.3 ms a
// hop. There is nothing to import.
//
//	go test ./internal/flow -run Flow -v               prints the tables
//	UPDATE_DOCS=1 go test ./internal/flow -run Flow    writes docs/flow.md
package flow
