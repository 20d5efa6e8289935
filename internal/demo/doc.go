// Package demo is the demonstration that `chatclub` runs: a crowd of simulated
// people, a crew of dispatchers that can be killed, hung and added to, and the
// things that a visitor can do, each with a receipt of its results. It shows all
// of it by package console.
package demo
