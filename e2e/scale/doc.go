// Package scale measures how far a cluster goes: for 10 to 1,000 nodes and 128 to 65,536 shards it
// has the product's own planner place and move copies, its codec encode the map, its Raft host
// beat and its server hold empty shards, and computes what follows for etcd, nodes and routers.
// Sizes beyond the product's bounds are measured, too, to see what stands behind a bound. Each
// result is checked by code that knows nothing of the planner.
//
// The figures are in RESULTS.md, whose tables `go run ./e2e/cmd/scale` prints.
package scale
