// Package browsertest holds the tests of chatclub's page, and of fakeapi's, in a real
// browser. The whole system runs as a process, and headless Chromium opens its pages.
// It takes the picture of the documents. It has no code of its own.
package browsertest
