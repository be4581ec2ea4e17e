// Package nodesim runs a cluster of the product's own nodes in one goroutine at a time from one
// seed, with faults, and compares what clients were told with what the disks have in the end:
//
//	go test ./e2e/nodesim                                                // a hundred seeds, and the variants
//	go test ./e2e/nodesim -run TestSeeds -nodesim.start 1 -nodesim.seeds 100000 -timeout 24h
//	go test ./e2e/nodesim -run TestSeeds -nodesim.start 70 -nodesim.seeds 1    // one again
//
// Real are the loop (node/commit) and the groups below it, recovery, the engine and the log
// (node/storage, on in-memory disks that lose their power), and the fetching, installing and
// dropping of shards' files (node/transfer). Its own are the clocks, the network, clients, the
// map, and the driver that joins them: the order of writing, syncing, applying and answering,
// and of the steps of a checkpoint. The log is synced before each answer.
//
// e2e/sim plays more of a cluster (placement, routers, a log that is synced once a second)
// around a model of the node; what it cannot find are faults of the node itself.
//
// # What is checked
//
// A client writes and reads registers of its own, so that it knows what a read may show: the
// last value that was answered, or one of those of which nobody knows what became. All nodes
// start again after any kill or power cut. In the end, with all healed, the cluster comes to
// rest within 20 s: groups are as the map says, no data is left where no replica is, the copies
// of a shard have one digest, and every register of every copy is what it may be.
package nodesim
