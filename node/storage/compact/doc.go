// Package compact merges segments, rewrites those that hold much that is deleted, and drops those
// that are too old.
//
// What is to be done next follows from a manifest alone (the plan functions); a Compactor does one
// job at a time, when it is called, and publishes what came of it. It alone takes segments away:
// whoever must not meet that pauses it.
//
// The package depends on no shard and no clock: cuts come as a snapshot, the time is an argument, and
// keys of series are asked for through an interface.
package compact
