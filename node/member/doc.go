// Package member is a storage node as a member of its cluster: the node, its service to the others,
// its connections to them, and the agent that keeps its lease and its map. Start joins them and Close
// takes them apart in the order in which nothing is lost. Standalone tells of a node without a cluster
// in the shape of one.
//
// It depends on the placement store's interface, and on neither flags nor routers.
package member
