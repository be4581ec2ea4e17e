// Package resolve remembers which series have which ids, for routers: a bounded cache
// from canonical key to shard and id. It implements split.Resolver. What it has
// evicted costs bytes, never correctness: an unknown series travels with its key, and
// the answer brings its id again.
//
// Memory is flat, without a pointer for each series. A stripe, one of stripesCount by
// hash, has a ring of records (id, shard, key) and a table of slots that point into
// it. When the ring is full the oldest record goes; one that was asked for since it
// was written is written again at the ring's end instead (second chance).
//
// Ids hold within an era of their shard. A write must not leave with ids of one era
// under the name of another, and ids are found long before the write leaves. So there
// is a generation:
//
//  1. Whoever splits points reads Generation, then resolves. The frame has that
//     generation.
//  2. Before the write leaves, Era returns the shard's era, or that it has changed
//     after the generation: then nothing is known of the frame's ids.
//  3. A new era first stops Era and Learn for the shard, then removes all its
//     records, then raises the generation. So who reads the new generation finds
//     ids of the new era only.
package resolve
