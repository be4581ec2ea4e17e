// Package sim runs a whole cluster in one goroutine from one seed: nodes, routers,
// the placement store, clocks, disks and the network. The same seed gives the same
// history to the last event, so a failure is replayed by its seed:
//
//	go test ./e2e/sim                                        // some thousand seeds
//	go test ./e2e/sim -run TestSeeds -sim.start 1 -sim.seeds 1000000 -timeout 24h
//	go test ./e2e/sim -run TestSeeds -sim.start 703 -sim.seeds 1   // one again
//
// A failure is shrunk (fewer faults, clients, shards, less time) and printed with the
// last events before it. Seeds that found bugs are kept in testdata/seeds.txt.
//
// # What is real
//
//   - node/replica: the Host with all of its Raft groups, its envelopes and its
//     durable states, and NextStep;
//   - api/shardmap: the map, Plan, Tracker, Row.Settled, Recoveries, and memstore as the
//     store, with leases, swaps, and snapshots that are restored;
//   - of node/storage: the format of the log's records and of an entry of samples.
//
// # What is modelled
//
//   - the loop around the Host (process.go, apply.go, groups.go, files.go,
//     recovery.go): it takes, proposes, sends what may go early, writes, syncs,
//     advances, sends what may go late, and applies, in the order of the node's loop;
//   - the log as a row of records of which a first part is synced, and the engine as
//     a few registers with a table of batch ids, of which a checkpoint has a state;
//   - routers: guesses of leaders, retries with the same batch id, deadlines;
//   - the return from a power cut in interval mode as another incarnation, whose relics are
//     a state and no log; groups that lost their majority so go on by Recoveries, with the
//     word of a person only when all has been healed and disks are lost.
//
// How much may be lost by that is checked: an answer is lost only if a power cut came within
// the interval of syncs, and the time for which a process was down or held up, after it.
//
// Not modelled: retention, copies of level "all", memory (invariant 13), accounting
// (15), digests of partitions, backups.
//
// # Rules that the model keeps
//
// A node that lacks one of these is not sound, or not live; each was found by a seed.
//
//  1. A replica is ended, and its data dropped, only on proof that its group has gone
//     on without it: a committed configuration, newer than its own, that lacks it. That
//     the map does not name it is no proof.
//  2. A leader settles only after a ReadIndex that began after it had the map which
//     the swap rests on: a deposed leader would write an old configuration.
//  3. A raft id that was removed is remembered: the map may lag, and name it again.
//  4. At a start a witness applies nothing; nothing is applied before the group's state
//     was read; and a state whose truncation has another term than the log's entry there
//     says that files were installed: what the log had before is no more.
//  5. When a lone group gains members, entries without a place in the log are given up
//     with the next checkpoint, or the log must keep them.
//  6. A change of the members is made only if a majority of the voters to be has what is
//     committed.
//  7. A replica that the map has as a voter, and that knows no configuration, asks for
//     files by itself: it came late to a fresh group.
//  8. A learner that was to be a witness does not become a full voter, nor the other way
//     round: it leaves, and another one comes.
//  9. A delete has a batch id, and looks for its series after a ReadIndex.
//  10. Placement waits while a node has seen a newer map than the store's; a rescued map
//     has an epoch far beyond all that are known.
//
// # What is checked
//
// An oracle hears of each entry when a Host first calls it committed. The order of
// the log is the witness of linearizability: each answer to a client must be what
// some state of that order says, no older than what was answered before the client
// asked. In the end all faults are healed, and the cluster must come to rest. The
// invariants of messages: 0 contradiction in itself, or no rest; 1 an answered write
// is in the logs of a majority; 2 a read includes what was answered before it (also 3,
// no old value returns); 4 nothing is read that was not sent; 5 full voters with one
// applied index are equal; 6 an index is committed with one content, a term has one
// leader; 7 epochs and terms grow; 8 data goes only where others have it, and a full
// voter has all (14); 9 an id means one series; 10 deletes stay; 11 a raft id is never
// used again; 12 a witness has no data.
package sim
