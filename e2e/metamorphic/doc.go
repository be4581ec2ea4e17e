// Package metamorphic sends the same writes, deletes and queries to one server and to a
// cluster that grows, shrinks and moves its shards meanwhile: the answers must be the
// same to the last byte, as sums are made in one order however series are spread.
package metamorphic
