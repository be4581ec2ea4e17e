// Package read answers questions about series and their samples: scans, windows, newest
// samples, names.
//
// A Reader reads one series after the other. What it sees lies in three places: segments and page
// log, which a lease of a manifest's version holds, and hot pages, which it copies from their shard.
// Later writes win, in the order that package storage describes. A Source shares the series of a
// question out among workers, each with a Reader; a Gate lets Close wait for all of them.
//
// The package depends on no entry and no log, and changes nothing: of a shard it asks what interface
// Shard has.
package read
