// Package segment holds the sorted, immutable files of the storage engine. A
// segment covers one partition of time and many shards; it holds the samples of
// each series as compressed blocks, an index, and, if asked for, rollups by hour
// and day. FORMAT.md beside this file has the byte layout.
//
// The life of a segment: a Writer takes samples in order of (shard, id, time)
// and makes a file that either exists whole under its final name or not at all.
// Open maps it; a Reader is counted and its file is removed, when dropped, with
// the last reference. Merge reads several segments and writes fewer; PlanCompaction
// says which, and Expired which have outlived their retention.
//
// # Order of writes
//
// Every segment carries the range of sequences [SequenceLow, SequenceHigh] of the
// flushes that it is made of. Two live segments whose partitions and shards
// overlap have disjoint ranges, and of two samples with one timestamp the one in
// the segment with the higher range is the later write. A merge is allowed only
// if no segment outside of it overlaps the output's partition and lies, in
// sequence, within the output's range.
//
// # Damage
//
// Every byte of a file is covered by a CRC-32C, which is checked by whoever reads it,
// as a disk may fail between two reads: footer and shard directory by Open, which
// copies them, a page directory and a page whenever a Cursor comes to them, a block
// whenever it is decoded. A damaged block, index page or
// page directory makes a *CorruptError for what it holds, and the rest of the
// file remains readable. The digest of a shard, a sum of hashes of its samples,
// is passed on by merges and not computed anew, so that Verify, which does compute
// it, checks the samples against the ones that were first written.
package segment
