// Package sim plays the whole system in one process, in virtual time, from one seed: webhook,
// cores, dispatchers, their broker and database, the platform, people and operators, while
// parts of it fail. The seed decides all that people do and all that fails. The platform's
// ledger says whether a promise was broken. It has tests alone.
package sim
