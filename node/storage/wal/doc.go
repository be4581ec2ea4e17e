// Package wal is the node's log: an endless sequence of records in files of
// fixed size, which is what the node knows since its last checkpoint. FORMAT.md
// has the bytes.
//
// # Use
//
// A committer frames records in a Buffer and passes it to Log.Write, which puts
// it down with one pwrite. Log.Sync makes what has been written durable; it may
// run while another goroutine writes, so two buffers in turn give group commit.
// After a start Log.Replay visits the records from a position on, in order.
// Log.TrimBefore removes the files that a checkpoint has made superfluous.
//
// # Promises
//
//	W1. A record whose Write returned survives the death of the process.
//	W2. A record below the position that Sync returned survives a power cut.
//	W3. What Replay visits is what was written, in order, without repetition.
//	W4. After a power cut, of the records that W2 does not cover a first part
//	    survives: Replay never visits a record that follows a lost one.
//	W5. Damage to a record that is known to have been synced costs that record
//	    alone. It is reported and counted, and what follows is replayed.
//
// To tell W4 from W5 every record has how much of what precedes it was synced
// when it was written. A hole that a later record calls synced is damage; any
// other hole is where the power was cut, and ends the log. So damage to what was
// written after the sync before the last looks like a power cut, unless the log
// was closed: Close leaves an end record that calls everything synced.
//
// # Failure
//
// A write or sync that fails breaks the log for good: the kernel may have
// dropped the pages, and a second sync that succeeds proves nothing. Every later
// Write and Sync returns an error that wraps ErrBroken and names the file and the
// remedy; Replay and Record go on. The next Open writes again what it finds
// unsynced before it calls that durable. A full disk does not break the log: room for a
// whole file is taken ahead of need, Stats reports when that fails, and Write returns
// a *SpaceError, with nothing written, only when the present file is full too.
package wal
