// Package faults makes a whole deployment fail, one fault after another, and lets
// the fake platform's ledger say what each fault cost: what was lost, doubled or
// unexpected, how long a page was silent, and when it was back.
//
// Table has the faults with their bounds. A Script puts them in an order that its
// seed decides. Run plays it against a System, which packages deployment and
// cluster make of processes, and link of the ways between them.
//
// A copy counts as lost when it was announced before the fault's end and has not
// been accepted after Config.Patience. Losses and unexpected copies are judged on
// any machine; the other bounds are not while the machine was busy.
package faults
