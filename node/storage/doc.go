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
// ARCHITECTURE.md, decision 2.
//
// The engine starts no clock and no goroutine of its own but the visitors of a
// scan: the node calls Apply, Checkpoint, Flush, Compact and Retain. It knows
// nothing of the log but positions.
package storage
