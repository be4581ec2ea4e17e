// Package replica runs the Raft groups of a node as one step function.
//
// A Host has a replica of many groups, one for each shard that the node is a member
// of. It has no goroutine, no clock and no I/O: what happens is told to it (Tick,
// Receive, Propose, Applied, ...), and what has to be done is fetched from it as a
// Round. The same calls in the same order return the same Rounds, which lets a
// simulation replay a cluster from a seed. All methods belong to one goroutine.
//
// The life of a Round:
//
//	for host.Ready(&round) {
//		send round.Early                       // may go before anything is on disk
//		log  round.States, then round.Appends  // one write; fsync if round.Sync
//		host.Advance(&round)
//		send round.Late
//		apply round.Committed, in order; answer round.Reads and round.Failed
//	}
//
// With Config.SyncLater the fsync may come after Advance, from another goroutine, and is
// told by Synced. Late, Committed, Reads and Prepared of the groups whose States are synced
// wait for it and come with a later Round, and so does all that these groups do next;
// other groups go on. What the driver itself does on the ground of States has to wait too:
// dropping the data of a replica that was removed, and telling others of a configuration
// while GroupStatus.Syncing.
//
// Between Ready and Advance every other method may be called; a second Ready returns
// nothing until the first Round is advanced. If the log cannot be written, the Host
// must not be used any more.
//
// # Promises
//
//	R1  What is in Committed is in the logs of a majority, and its (shard, index) has
//	    that content for ever. It comes in order of index, without gaps.
//	R2  Late messages and Committed rest on the Round's States and Appends: they may
//	    be used only when these are written.
//	R3  Each token that Propose or Read took comes back once: in Committed or Reads,
//	    or in Failed. A failed proposal may yet be committed (then without token).
//	R4  A Read's index is at least that of each proposal that was given out as
//	    Committed anywhere before Read was called.
//	R5  A witness returns no Committed and takes neither Propose nor Read.
//	R6  A panic of the Raft library stops its group, not the process (Status.Fault):
//	    it says that a log has lost what it had acknowledged.
//
// # A group with a single voter
//
// A group whose one member is this replica, without learners, needs no agreement: an
// entry is committed by being in the log. Its path makes no Raft node, no copy and no
// allocation. The log, the records and the Rounds are the same as those of other
// groups, so that a group can gain members and lose them again. It begins a
// new term with each start, as an election would.
//
// # Time
//
// A tick is what the driver makes it (50 ms). The Host counts the ticks of followers
// itself and draws election timeouts from its seeded generator: the library's own
// timeouts come from the operating system's randomness. The library is ticked only
// while it leads.
//
// # Hibernation
//
// A leader whose members all have everything, and who heard nothing new for
// Config.HibernateTicks, tells them so; then none of them ticks any more. An envelope
// each Config.HeartbeatTicks between two nodes, be it empty, stands for all of their
// hibernating groups. When a node is silent for Config.ElectionTicks, or has been started
// anew, the groups that it leads, or follows, wake.
//
// # Snapshots
//
// Data never travels here. When a member needs entries that the leader's log no longer
// has, the leader says from which index on; the member's Host asks its driver for
// files (Round.Snapshots). The driver fetches them from any full voter, calls
// PrepareSnapshot, waits for the Round that names the shard as Prepared, lets its
// appliers finish what came before, swaps the files, and calls InstallSnapshot. The log
// says meanwhile that a swap is under way: entries of the old log that the new files
// have gone past may never have been committed. A witness needs no files and continues
// by itself.
//
// # Members
//
// NextStep returns how a leader brings its group to its row of the map. A change is published
// in the map, after which leavers delete what they have, only when the voters that are
// heard, and a majority, have logged it: one that still lives in the old configuration
// would ask the leavers for their votes. A raft id that a row once did not name any more
// may be retired on its node, and must not be named again.
//
// # Reading the source
//
// Calls run one way, from Host (host.go) down: ticks, envelopes and nodes that come and go (tick.go, receive.go,
// nodes.go); what a group does with a voter alone and with Raft (dispatch.go, above single.go, collect.go and propose.go);
// changes of members, snapshots and heirs (change.go, snapshot.go, heir.go); then what a group is (group.go), its log
// (entries.go) and what it sends (send.go, peer.go, package envelope).
package replica
