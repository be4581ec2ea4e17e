// Package entry has the entries of a shard's log as bytes: their kinds, headers and bodies.
//
// It refuses to know what an entry does to a shard, and where the log keeps it. Whoever adds a kind
// adds it here, in FORMAT.md, and where a shard applies entries.
package entry
