// Package cluster is the cluster as the public API sees it: it follows the shard map, takes part in the
// election of who places shards, and asks the nodes for status, moves and recoveries.
//
// It sees nodes by the reports of their service and the placement store by its interface. It depends on no
// client: who may ask is checked before.
package cluster
