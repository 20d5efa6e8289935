// Package fakeapi is a fake of the Messenger Platform that judges its senders.
// It has a Send API with the documented limits, checks, error envelopes and
// usage headers, and a ledger. The ledger knows of every message id whether it was
// accepted, and so which were lost, duplicated, unexpected or out of order. The
// package shares no code with the system under test.
//
// New makes a platform. API.Do judges one request at the present time and
// answers at once. How late the answer is to be delivered, and whether the
// connection is to be lost instead, is part of the answer. API.Serve puts it
// behind a socket. API.Transport puts it behind an http.Client without one, so
// that it runs under virtual time (testing/synctest). The same calls at the
// same times with the same Config.Seed get the same answers.
//
// Package users adds simulated people who chat through the system under test,
// and package web adds a page on which people play users by hand. The platform
// knows neither of them. Packages ledger, limit and webhook can be used alone.
package fakeapi
