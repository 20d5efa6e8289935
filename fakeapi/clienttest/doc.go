// Package clienttest tests the fake with a public client library that others
// wrote against the real platform. With nothing but the address changed its
// sends are accepted, its error class sees the codes, and it takes the webhooks
// for Messenger's.
//
// The library is the npm package @warriorteam/messenger-sdk, pinned by
// testdata/package-lock.json and installed into a folder of the test. The test
// needs Node.js 18 or newer and npm; without them it is skipped, except in CI.
package clienttest
