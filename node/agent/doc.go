// Package agent joins a node to its cluster. It registers the node under a lease,
// hands it each new shard map, keeps the newest map in the data folder, so that a
// node that starts while the placement store is down knows its place, and writes
// back the configurations that leaders of groups have reached. A map that allocates something to the node
// is adopted only when the store knows that the node has seen it (Agent.confirm).
//
// It is the only part of a node that knows the placement store. While the store
// does not answer, the node goes on with the map that it has.
package agent
