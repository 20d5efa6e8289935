// Package e2e holds the tests that run chatclub's programs as its users do: as
// processes, on a real RabbitMQ and PostgreSQL, with fakeapi as the platform
// and the judge. There is nothing else in it.
package e2e
