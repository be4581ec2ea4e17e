// Package tickmeshv1 is the public API of a TickMesh cluster, generated from the
// .proto files beside it by hack/scripts/generate.sh. proto/README.md has the rules
// by which it may change.
package tickmeshv1
