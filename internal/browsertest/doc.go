// Package browsertest holds the tests of chatclub's page, and of fakeapi's, in a real
// browser. The whole system runs as a process, and headless Chromium opens its pages.
// It takes their pictures and the film of the tour. It has no code of its own.
package browsertest
