// Package mesh is what the operator sees of a cluster that runs, and what it may say to
// it: the placement store, of which it changes only what is desired of nodes, and the
// status that routers report over the public gRPC API. It does not depend on Kubernetes.
//
// Twins of Mesh: the one of Connect, and meshtest.Mesh in memory.
package mesh
