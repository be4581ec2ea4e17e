// Package mesh is what the operator sees of a cluster that runs, and what it may say to
// it: the placement store, of which it changes only what is desired of nodes, and the
// status that routers tell over the public gRPC API. It knows no Kubernetes.
//
// Twins of Mesh: the one that Connect gives, and meshtest.Mesh in memory.
package mesh
