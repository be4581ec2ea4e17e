// Package sim runs a whole cluster in one goroutine from one seed: nodes, routers,
// the placement store, clocks, disks and the network. The same seed gives the same
// history to the last event, so a failure is replayed by its seed.
//
// # What is real
//
//   - node/replica: the Host with all of its Raft groups, its envelopes and its
//     durable states, and NextStep;
//   - api/shardmap: the map, Plan, Tracker, Row.Settled, and memstore as the store,
//     with leases, swaps, and snapshots that are restored;
//   - of node/storage: the format of the log's records and of an entry of samples.
//
// # What is modelled
//
//   - the loop around the Host (process, groups, checkpoint, files): it takes,
//     proposes, sends what may go early, writes, syncs, advances, sends what may go
//     late, and applies, in the order of the node's own loop. Where the model keeps
//     a rule that a node needs for safety, a Variant leaves it out;
//   - the log as a row of records of which a first part is synced, and the engine as
//     a few registers with a table of batch ids, of which a checkpoint has a state;
//   - routers: guesses of leaders, retries with the same batch id, deadlines;
//   - processes, their pauses and deaths, and all messages.
//
// # What is checked
//
// An oracle hears of each entry when a Host first calls it committed. The order of
// the log is the witness of linearizability: each answer to a client must be what
// some state of that order says, no older than what was answered before the client
// asked. Invariant numbers in messages are those of the list in ARCHITECTURE.md.
package sim
