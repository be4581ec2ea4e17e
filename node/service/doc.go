// Package service is a node as routers and other nodes see it: rpc.Node over
// node.Node. It turns what the two say of errors into one another, splits answers by
// shard, and keeps exports open for those who come back for the rest.
package service
