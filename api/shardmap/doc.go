// Package shardmap defines which node holds which shard: the map as a value, the
// arithmetic of placement as pure functions, and Store, the place where the map,
// the nodes and what is wanted of them are kept.
//
// A Map has a Row for each shard. Row.Members is the configuration of the shard's
// Raft group as the group's leader published it last; Row.Intended is what placement
// wants. Two parties write rows, but for rule M6, both by compare-and-swap of the whole map:
//
//   - the placement loop, with what Plan returns: it sets Intended, never Members;
//   - the leader of a group, with Row.Published: it sets Members, and clears Intended
//     once it is reached.
//
// A group's own configuration is the truth about votes. So the leader first publishes
// what its configuration is, then goes on towards Intended (or, where that is nil,
// back to Members).
//
// Rules that keep a row safe, whoever writes it:
//
//	M1  Epoch of the map and Version of a row grow by one with each change.
//	M2  A raft id is given once in a shard: RaftIDLast only grows.
//	M3  A replica keeps its raft id and role; a learner becomes what Intended says,
//	    and that it was made for: a witness to be has no data. To change its role, or
//	    what it learns for, a replica leaves, and comes back with a new raft id.
//	M4  Members change only by Row.Published, and by M6.
//	M5  Members and Intended have at least one full voter.
//	M6  A group that has neither a leader nor a majority goes on from one copy when a row
//	    names that copy's place alone, with a new raft id and in the next era. The row is
//	    written without a person's word only if no majority can ever come back, or none of
//	    it knows the group's configuration, and all replicas that may have data are there to
//	    be compared; see Recoveries.
//
// This package uses the standard library only. Its twins of Store are memstore (in
// memory, for tests and the simulation) and etcdstore; storetest is the contract
// that both must pass; etcdserver runs an etcd inside this process.
package shardmap
