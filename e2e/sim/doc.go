// Package sim runs a whole cluster of the product's own nodes from one seed: nodes, routers, the
// placement store, clocks, disks and the network, one event at a time. The same seed gives the
// same history to the last event, so a failure is replayed by its seed:
//
//	go test ./e2e/sim                                        // some thousand seeds, and the variants
//	go test ./e2e/sim -run TestSeeds -sim.start 1 -sim.seeds 1000000 -timeout 24h
//	go test ./e2e/sim -run TestSeeds -sim.start 703 -sim.seeds 1   // one again
//	go test ./e2e/sim -run TestSeeds -sim.start 703 -sim.seeds 1 -sim.variant DropUndrained -sim.mix DropUndrained
//
// Each run plays fresh seeds of every mix, too, and prints the first. A failure is shrunk (fewer
// faults, clients, shards, less time) and printed with the last events before it, and the command
// that plays it again. Seeds that found bugs are kept in testdata/seeds.txt.
//
// # What is real
//
//   - node/commit: the loop as a step function, its groups (node/replica), the recovery of a
//     start, and what becomes of replicas whose log may have lost its end;
//   - node/storage: the engine with its pages, segments, series table and batch ids, the log
//     (node/storage/wal), and their files on vfs.MemFS, a disk that loses what was not synced
//     when its power is cut;
//   - node/transfer: files of shards fetched, installed and dropped; members asked;
//   - api/shardmap: the map, Plan, Tracker, Row.Published, Recoveries, and memstore as the
//     store, with leases, swaps, and snapshots that are restored;
//   - api/series: keys, batches with definitions or ids, batch ids.
//
// # What is the simulator's own
//
//   - clocks, the network, clients, and the routers: guesses of leaders, retries with the same
//     batch id, deadlines, remembered ids;
//   - the driver around the step function (loop.go, requests.go, checkpoint.go), which joins
//     the parts in the order of package node: what goes early, write, sync, what goes late,
//     apply, answer; the steps of a checkpoint; which incarnation a folder is. Package node
//     does this with goroutines, which no seed could order;
//   - the agent that adopts maps and writes the configurations of groups (placement.go), and the placement loop
//     around the product's Plan (placer.go).
//
// A process ends between two events, or between two operations on its disk within a checkpoint,
// flush, installation or drop (process.meet). Procedures of the product that wait in their
// middle are tasks (task.go), of which one runs at a time.
//
// Series are forgotten in the mix "forget" alone (Options.Forget), so that the histories of the others stay: deletes
// empty them, leaders propose to forget them at the right moment or too late, and routers go on with old ids.
//
// Not simulated: retention, copies of level "all", memory, digests of partitions and repair,
// backups, a disk that is full or fails.
//
// # From an event to the product
//
// The words of a line of a printed trace are found in this package by their call of trace.note. In
// the product they are handled by:
//
//   - start, reincarnate, alone: commit.Recovery, storage.Open and Engine.RenewIncarnation, in the
//     order of node.Open; here process.open and recover;
//   - install, no install, conflict, drop: transfer.Service.Install and Discard;
//   - publish: commit.Machine.Unpublished and shardmap.Row.Published, as in node/unpublished.go and node/agent;
//   - plan, swap, rescue: shardmap.Plan, Store.CompareAndSwap and Recoveries, as in router/placement;
//   - map rescued: shardmap.Rescue, as in api/cli/rescue;
//   - all other lines are faults (faults.go, node.go), of which the product knows nothing.
//
// Rounds and checkpoints are too many for lines. process.turn, write and finish step the Machine
// (Step, Written) as loop.turn and loop.commit do in package node; an envelope reaches
// replica.Host.Receive within Step. process.makeCheckpoint is node/checkpoint.go.
//
// A breakpoint on World.fail stops at a violation, with the event on the stack: World.runUntil
// calls it.
//
// # Variants
//
// A variant is the product with one rule left out, at the faces between it and the driver, so
// that the product has no switch in it. Each must be caught, on a seed on which the sound
// cluster comes through; DrawFor makes the trouble that shows it. Those below the line in variant.go break what a
// model of the node would have had to repeat by hand: when the loop syncs and drains, what a
// checkpoint names and when the log goes, what a start reads, and the order of log and files when shards move.
//
// How much may be lost without a sync before each answer is checked: an answer is lost only if a
// power cut came within the interval of syncs, and the time for which a process was down or held
// up, after it.
//
// # Rules
//
// A node that lacks one of these is not sound, or not live; each was found by a seed.
//
//  1. A replica is ended, and its data dropped, only on proof that its group has gone
//     on without it: a committed configuration, newer than its own, that lacks it. That
//     the map does not name it is no proof.
//  2. A leader publishes only after a ReadIndex that began after it had the map which
//     the swap rests on: a deposed leader would write an old configuration.
//  3. A raft id that was removed is remembered: the map may lag, and name it again.
//  4. At a start a witness applies nothing; nothing is applied before the group's state
//     was read; and a state whose truncation has another term than the log's entry there
//     says that files were installed: what the log had before is no more.
//  5. When a group of one voter gains members, entries without a place in the log are given up
//     with the next checkpoint, or the log must keep them.
//  6. A change of the members is made only if a majority of the voters to be is heard.
//  7. A replica that the map has as a voter, and that knows no configuration, asks for
//     files by itself: it came late to a fresh group.
//  8. A learner that was to be a witness does not become a full voter, nor the other way
//     round: it leaves, and another one comes.
//  9. A delete has a batch id, and looks for its series after a ReadIndex.
//  10. Placement, and a leader that publishes, wait while a node has seen a newer map than the
//     store's; a rescued map has an epoch far beyond all that are known.
//  11. A replica goes on by itself from a log that has lost its end only if it is its group's
//     only member, learners included, and its folder is no other incarnation: else nobody
//     would follow it.
//  12. What a replica's own log says of its end holds in an era that the map does not know, too.
//  13. A node goes by a map that gives raft ids or begins eras of its shards only when the store has been told
//     that the node has seen it, and has it still then: else one that is set back gives them again.
//  14. Replicas that know no configuration, having come late to a fresh group, are no majority that will
//     elect a leader: the group goes on from a copy that knows it, though quarantined (shardmap.Recoveries).
//
// # What is checked
//
// An oracle hears of each entry when a Machine first gives it out as committed, and applies it to
// a state of its own, with code of its own. The order of the log is the witness of
// linearizability: each answer to a client must be what some state of that order says, no older
// than what was answered before the client asked. In the end all faults are healed, and the
// cluster must come to rest. The invariants of messages: 0 contradiction in itself, or no rest;
// 1 an answered write is in the logs of a majority; 2 a read includes what was answered before
// it (also 3, no old value returns); 4 nothing is read that was not sent; 5 what an engine has at
// an applied index is what the log says; 6 an index is committed with one content, a term has one
// leader; 7 epochs, eras and terms grow; 8 data goes only where others have it, and a full
// voter has all (14); 9 an id means one series; 10 deletes stay; 11 a raft id is never
// used again; 12 a witness has no data.
package sim
