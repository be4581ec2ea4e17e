// Package commit is the commit path of a node as a step function: from writes, reads and
// envelopes to what the log gets, and from there to what the engine applies. A Machine has no
// goroutine, clock, file or channel; what happens is told to it, and what has to be done comes
// back as values. The same calls in the same order give the same values. Package node drives
// one with goroutines, a log and an engine; a simulation can drive many from a seed.
//
// # The border
//
// In goes an Input: the wall clock, ticks, how far each shard is applied, news of connections,
// envelopes, reads and writes, and which round's states are durable. Out come two things. A
// Round is what goes to the log with one write, and later what is to be applied; it belongs to
// the driver from Step until it is given to Step again. An Output is all else that follows from
// a call: answers, and what others are to do (fetch files, drop data, ask members). The driver
// deals with it, and resets it, after every call and before the next.
//
//	for {
//		ready, err := machine.Step(&input, round)   // take, propose
//		perform(machine.Output())
//		if !ready { wait; continue }
//		send(round.Early())                         // may go before anything is on disk
//		start := log.Write(&round.Buffer)           // write
//		sync the log if round.HasStates()           // before Written, or later by Input.Synced: replica.Config.SyncLater
//		machine.Written(round, start)
//		send(round.Late()); perform(machine.Output())
//		apply round.Entries, each applier its own   // apply; finish the Shares
//	}
//
// All other methods of a Machine (Adopt, BeginSwap, EndSwap, Dropped, Left, Durable, BeginEpoch,
// ...) are called between Written and the next Step, by the same goroutine. If a round cannot be
// framed or written, it is unknown what the log has: only FailAll may be called then.
//
// # A start
//
// A Recovery is given every record of the log, in order. It hands the engine what is known to
// be committed, and remembers of the rest what the groups have to know. Doubt reports whether the
// log may lack what replicas here have told others. New makes a Machine of it.
//
// # What the driver promises
//
//	D1  Entries of a shard are applied in the order of Rounds, and a round's Epoch goes with them.
//	D2  Shares of an entry are finished once, after the engine has it.
//	D3  Data is dropped for Output.Drop only when the log that says so is durable and nothing of
//	    the shard is on its way to the engine; then Dropped is called.
//	D4  Files of a shard are swapped only after Output.Prepared, and when nothing of it is on its
//	    way to the engine; EndSwap is called whatever became of it.
package commit
