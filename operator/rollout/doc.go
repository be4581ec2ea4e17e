// Package rollout decides what the operator does next to the nodes of a cluster. It is
// pure: Decide looks at Facts, which are what was asked for and what is seen, and returns
// a Plan. Nothing is remembered from one decision to the next but what Tracker has,
// which only makes the operator wait longer after a start. So an operator that is
// killed between any two actions leaves nothing that the next one does not see.
//
// Nodes are in groups, each with a StatefulSet and a number of its own. The rules are about all nodes,
// whatever group they are of: one is restarted at a time, not one of each group.
//
// The operator changes what is desired of nodes, never the shard map: placement moves
// shards, the operator waits for it. Rules that every plan keeps:
//
//	R1  A node is drained before its pod goes; a pod goes by scaling only when placement
//	    has named its node in no row for EmptyForMs while it was to be drained.
//	R2  A drain that would lose copies or space is not begun (shardmap.CheckDrain), and
//	    none while another node that holds shards is down.
//	R3  A node that runs is restarted only when every shard in which it votes keeps a
//	    majority and a complete copy without it, all other pods are ready, and one at a
//	    time. A shard that cannot have more voters than it has, because there are too
//	    few nodes or replication is 1, loses no data by a restart but does not answer
//	    meanwhile: it needs all its voters.
//	R4  A volume is given up only when its claim or machine is lost, its node holds no
//	    lease, every shard of it has a majority and a complete copy without it, and its
//	    incarnations are retired. Its claim is marked before: so a machine that comes
//	    back too late cannot keep it, and one that comes back in time does. A node that
//	    runs while its claim is being deleted is ended first, as by R3, once every shard
//	    of it has a majority and a complete copy without it. Until its pod has gone no
//	    drain is begun, it does not become active, as shards could move to it, and it counts
//	    for no majority and as no copy.
//	R5  A volume that scaling has left over is deleted only where the policy says so, or
//	    when its incarnation is retired and its ordinal is wanted again.
//	R6  What is wanted can change at any moment: a node that is wanted again becomes
//	    active at once; only a volume whose incarnation is retired, or whose claim is being
//	    deleted while nothing is on it, has to go first.
//	R7  While no maintenance window is open, a node that runs is restarted only when a person
//	    asks for that, or emptied for another volume. Nothing else waits for a window: neither
//	    repair nor scaling.
//	R8  A volume of another storage class than is asked for is replaced as by scaling in and out:
//	    its node is drained as by R1 and R2, one at a time, while all others are ready and no
//	    shard moves, and its claim and pod go when it is empty. Where no node can be drained,
//	    spare nodes take part until the last volume is replaced. The StatefulSet is made anew
//	    before, as Kubernetes does not let its claims change: its pods stay.
//	R9  The StatefulSet of a group that is not asked for any more is deleted when it has no pods and
//	    nothing else is to be done. That of a group that is added to a cluster begins with none.
package rollout
