// Package handshake identifies the processes of a cluster to each other. Every call of
// the node service carries the caller's Hello in a header and gets the node's Hello
// in the response header. Each side checks the other one: version, cluster, node id,
// data folder. gRPC makes connections anew behind the back of both, so the check is
// per call, not per connection.
//
// A Hello is what a process says of itself. Where there is TLS its certificate has to say
// the same: Names checks, when a connection is made, that it is of a process of the
// cluster, and at each call that its role may call the method and that a node is the one
// that its Hello names.
package handshake
