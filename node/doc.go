// Package node is one storage node: the log and the path of writes through it,
// the clock of the engine's maintenance, limits, and metrics. A node on its own is
// a Raft group of one voter for each shard: what is in its log is committed.
package node
