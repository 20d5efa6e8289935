// Package browsertest holds the tests of fakeapi's page in a real browser: the
// whole system runs as a process, headless Chromium opens the page, and people
// chat by its phones. It has no code of its own.
package browsertest
