// Package nodev1 is the service that a node of a cluster has for routers and other
// nodes, generated from the .proto files beside it by hack/scripts/generate.sh. It
// is no public API; proto/README.md says which versions work together.
package nodev1
