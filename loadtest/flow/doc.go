// Package flow shows what the dispatcher does with a page's quota. Its tests run
// several dispatchers of package fleet against the fake platform in virtual time,
// so that minutes of saturation, of replicas that come and go and of backlogs
// give exact figures in seconds. The broker is package memory behind a network of
// 0.3 ms a hop. There is nothing to import.
//
//	go test ./flow -run Flow -v    prints the tables
package flow
