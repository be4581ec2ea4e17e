// Package exemplar keeps the newest exemplars of a shard: a ring for each database, all bounded in bytes together,
// otherwise as Prometheus' circular storage of exemplars.
//
// A Ring is a function of the calls that change it, with no clock, so replicas that apply the same entries
// have the same one. The bound is an argument of Add for that reason: it must come with an entry, not
// from the flags of a node. FORMAT.md has the durable form.
//
// The package knows series by their keys only. When a database's retention has passed, and which series an entry deletes,
// is the caller's to say; callers guard a Ring as they guard the shard that it belongs to.
package exemplar
