// Package transfer moves data of shards in and out of an engine: whole replicas, as streams of files
// (Export, InstallShard, DropShard), and ranges of time, as streams of samples (ExportRange,
// RepairRange), which digests tell apart before.
//
// A replica is replaced, and a range is mended, in one step: by one manifest, which is shown to readers
// while the shard is locked. What moves is verified before, in files that nothing names.
//
// It refuses to know where streams come from and go to, which replicas there should be, what the log has,
// and how a shard applies entries: of a shard it sees interface Shard, which it never calls with a lock
// of its own held. Layouts of the streams are in FORMAT.md.
package transfer
