// Package storage is the engine of one node: it applies log entries to shards
// and answers scans over them.
//
// A sample's way down: Apply appends it to its series' hot page; a full page is
// sealed into the page log; a generation of the page log is flushed, sorted, as
// segments of level 0, one for each partition of time; compaction merges
// segments and retention drops them. A checkpoint names a position of the log
// from which everything that is not yet in pages or segments can be had again.
//
// The order of writes. Two samples of one series with one timestamp may lie in
// several places. The later write is the one further on in this order: segments
// by sequence, page log by position, hot main page, hot out-of-order page. See
// DECISIONS.md, decision 2.
//
// Replicas. A node holds replicas of some shards. What a shard's entries say is all
// that decides its state: ids of series follow from their order, batches that come
// again are known by the table of batch ids, and time is the one that entries carry.
// So replicas that have applied the same entries have equal contents, ids, tables and
// digests. A replica is copied by transfer.Mover's ExportShard and InstallShard, and removed by
// DropShard, both in one step; what the one before left in files that shards share
// lies below the shard's low-water mark and goes with the next merge.
//
// The engine starts no clock and no goroutine of its own but the visitors of a
// scan: the node calls Apply, Checkpoint, Flush, Compact and Retain. It knows
// nothing of the log but positions.
//
// The parts. The Engine opens a data folder, applies entries to its shards, and wires the parts, which
// never call it: manifest (which files count), read (scans), flush (pages to segments), compact
// (segments to fewer), retention (what is too old), dedup (batch ids), transfer (what moves in and out). Of
// a shard they see values, or an interface that they declare.
//
// Locks are taken in this order: the Compactor's Pause, the manifest's Edit, a shard's, that of a
// change of the version.
package storage
