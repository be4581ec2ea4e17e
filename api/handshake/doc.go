// Package handshake tells the processes of a cluster whom they talk to. Every call of
// the node service carries the caller's Hello in a header and gets the node's Hello
// in the response header. Each side checks the other one: version, cluster, node id,
// data folder. gRPC makes connections anew behind the back of both, so the check is
// per call, not per connection.
package handshake
