// Package queuetest holds the contract of package queue as tests, which RabbitMQ and
// the memory pass: every promise of package queue that can be observed through its
// interface.
package queuetest
