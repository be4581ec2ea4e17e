// Package rpc carries the node service of proto/tickmesh/node/v1: Server serves it
// over a Node, Peers sends Raft messages to other nodes, Download fetches a shard's
// files. It does not depend on what the bytes mean.
//
// Bounds: frames in work by bytes over all streams (Options.WriteBytesMax) and by
// number on each; a peer's queue by bytes, of which the oldest is dropped, as Raft
// repairs what is lost; exports at once. What is not read from a connection stays
// with its sender by HTTP/2's windows.
package rpc
