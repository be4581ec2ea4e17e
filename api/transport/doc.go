// Package transport makes the connections of a cluster: TLS from files that may be
// rotated at any time, and the gRPC settings that both sides have to agree on. Every
// listener and every client of the project uses it.
package transport
