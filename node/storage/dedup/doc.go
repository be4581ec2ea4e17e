// Package dedup remembers which batches a shard has applied, so that a batch that
// comes again is applied once.
//
// A Table is a function of the shard's entries and so the same on every replica. A Ledger
// keeps, beside the present table, what checkpoints need of earlier ones. Files stores the tables
// of all shards as they were at a checkpoint.
//
// The package depends on no shard, lock, log or manifest: callers guard a Ledger as they guard the
// shard that it belongs to, and name the file that counts in their manifest.
package dedup
