// Package auditor writes known samples to a cluster of real processes through all of
// its routers, overwrites and deletes some, notes each acknowledgement, and reads
// everything back while processes are killed, suspended and cut off from each other:
//
//   - every acknowledged sample is there, once, with its value;
//   - nothing that was never sent is there;
//   - what was overwritten or deleted, and acknowledged, does not come back;
//   - the full voters of a shard that have applied the same entries hold the same;
//   - queries are answered all the while, and each holds every write that was
//     acknowledged before it began.
//
// Each client owns its series and sends one request after the other, so the order of
// its writes is known. A value says which write it comes from: client, series, point
// and version, so that an answer can be traced to the write that it comes from.
//
// # What is not known
//
// A request that was not answered, or answered by an error, may have been applied or
// not, or may be later: a suspended process can hold it for as long as it likes. It
// stays in doubt until a check sees it. A point in doubt is not written again, as
// nothing could be said about it.
//
// # Scenarios
//
// Scenarios plays faults on clusters of harness.Cluster: etcd, nodes and routers are
// processes of their own, and all connections between them go through proxies that can
// lose, hold, delay or refuse bytes, each way on its own. Power cuts need root, loop
// devices and ext4; where these are missing, such a scenario is skipped and says why.
//
//	go test ./e2e/auditor                                    # some minutes
//	go test ./e2e/auditor -run 'TestScenarios/storm$' -timeout 1h -args -long -seed 7
//
// What is written, and which faults come in which order, follows from a seed. The
// interleaving depends on the machine.
package auditor
