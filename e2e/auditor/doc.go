// Package auditor writes known samples to real processes, a cluster through all of its routers
// or one standalone server, overwrites and deletes some, notes each acknowledgement, and reads
// everything back while processes are killed, suspended and cut off from each other, their
// power is cut and their disks are full or stand:
//
//   - every acknowledged sample is there, once, with its value;
//   - nothing that was never sent is there;
//   - what was overwritten or deleted, and acknowledged, does not come back;
//   - the full voters of a shard that have applied the same entries hold the same;
//   - queries are answered all the while, and each holds every write that was
//     acknowledged before it began.
//
// What may be answered is known by package model, the faults are in fault.go, and what is played
// with them in Scenarios.
//
// # Scenarios
//
// The smallest is one server, which is killed at random moments, at named failpoints and while
// it starts, and sometimes stopped cleanly. Of clusters, etcd, nodes and routers are
// processes of their own, and all connections between them go through proxies that can
// lose, hold, delay or refuse bytes, each way on its own. Power cuts need root, loop
// devices and ext4; where these are missing, such a scenario is skipped and says why.
//
//	go test ./e2e/auditor                                    # some minutes
//	go test ./e2e/auditor -run 'TestScenarios/one_server' -args -kills 500 -seed 7
//	go test ./e2e/auditor -run 'TestScenarios/storm$' -timeout 1h -args -long -seed 7
//
// What is written, and which faults come in which order, follows from a seed. The
// interleaving depends on the machine. Clocks cannot be changed for one process: the simulator
// plays those.
package auditor
