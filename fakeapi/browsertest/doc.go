// Package browsertest holds the tests of fakeapi's page in a real browser. The
// whole system runs as a process, headless Chromium opens the page, and users
// chat by its phones. It has no code of its own.
package browsertest
