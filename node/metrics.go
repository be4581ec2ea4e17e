package node

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tickmesh/tickmesh/node/clocks"
	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/repair"
	"github.com/tickmesh/tickmesh/node/storage"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// figures are what one collection of metrics reads.
type figures struct {
	engine   storage.Stats
	log      wal.Stats
	commit   *commitStats
	readOnly bool
	queue    int64
	queueMax int64
	// seriesMax is how many series memory has room for; seriesRefused counts those that bounds refused.
	seriesMax, seriesRefused int64
	rejected                 int64
	dropped                  int64
	loop                     *commit.Figures
	recovery                 Recovery
	groups                   groupFigures
	copies                   repair.Figures
	clocks                   *clocks.Clocks
	snapshots                snapshotFigures

	sinceCheckpoint int64
}

var _ prometheus.Collector = (*Node)(nil)

// Describe implements prometheus.Collector.
func (n *Node) Describe(out chan<- *prometheus.Desc) {
	for _, m := range n.metrics {
		out <- m.description
	}
}

// Collect implements prometheus.Collector.
func (n *Node) Collect(out chan<- prometheus.Metric) {
	f := &figures{
		loop:   n.loop.figures.Load(),
		engine: n.engine.Stats(), log: n.log.Stats(), commit: &n.loop.stats, rejected: n.loop.queue.rejected.Load(), dropped: n.loop.queue.dropped.Load(),
		sinceCheckpoint: n.logSinceCheckpoint(), readOnly: n.loop.refusals.any() != nil, queue: n.loop.queue.writeBytes(), queueMax: n.options.Memory.QueueBytes, seriesMax: n.engine.SeriesMax(), seriesRefused: n.limiter.Refused(), recovery: n.recovery, groups: n.groupFigures(),
		copies: n.repair.Figures(), clocks: n.clocks, snapshots: n.snapshotFigures(),
	}
	f.engine.Stats = f.engine.Plus(f.snapshots.reads)
	for _, m := range n.metrics {
		out <- prometheus.MustNewConstMetric(m.description, m.kind, m.read(f))
	}
}

func nodeMetrics() []metric {
	metrics := append(commitMetrics(), logMetrics()...)
	metrics = append(metrics, groupMetrics()...)
	metrics = append(metrics, loopMetrics()...)
	metrics = append(metrics, copyMetrics()...)
	metrics = append(metrics, clockMetrics()...)
	metrics = append(metrics, memoryMetrics()...)
	return append(metrics, fileMetrics()...)
}

func commitMetrics() []metric {
	return []metric{
		gauge("read_only", "1 while writes are refused because the disk does not take them.", func(f *figures) float64 {
			return oneIf(f.readOnly)
		}),
		gauge("commit_queue_bytes", "Bytes of writes that wait for the log.", func(f *figures) float64 { return float64(f.queue) }),
		counter("commit_rounds_total", "Groups of writes that went to the log with one system call.", func(f *figures) float64 { return float64(f.commit.rounds.Load()) }),
		counter("commit_writes_total", "Writes that went to the log.", func(f *figures) float64 { return float64(f.commit.writes.Load()) }),
		counter("commit_rejected_total", "Writes refused because too many bytes waited for the log.", func(f *figures) float64 { return float64(f.rejected) }),
		counter("samples_applied_total", "Samples applied to hot pages.", func(f *figures) float64 { return float64(f.engine.Samples) }),
		counter("samples_too_late_total", "Samples of the log that were not applied: of the hours from which on only the last sample is kept, beside rollups, they came too late.", func(f *figures) float64 { return float64(f.engine.SamplesTooLate) }),
		counter("samples_skipped_total", "Samples of the log that were not applied: older than retention, or of no known series.", func(f *figures) float64 { return float64(f.engine.SamplesSkipped) }),
		counter("batches_repeated_total", "Batches that were not applied since one with their id was.", func(f *figures) float64 { return float64(f.engine.BatchesRepeated) }),
		counter("series_forgotten_total", "Series without samples that were forgotten: their keys get other ids when they come again.", func(f *figures) float64 { return float64(f.engine.SeriesForgotten) }),
		counter("forgets_late_total", "Entries of the log that were to forget series, and did not, as another entry came before them.", func(f *figures) float64 { return float64(f.engine.ForgetsLate) }),
		counter("batches_forgotten_total", "Batches that were refused since they named series by ids that are forgotten; routers send them again with keys.", func(f *figures) float64 { return float64(f.engine.BatchesForgotten) }),
		counter("exemplars_kept_total", "Exemplars that were kept, of all shards that have a replica here.", func(f *figures) float64 { return float64(f.engine.ExemplarsKept) }),
		counter("exemplars_evicted_total", "Exemplars that have made room for newer ones.", func(f *figures) float64 { return float64(f.engine.ExemplarsEvicted) }),
		gauge("exemplar_bytes", "Memory of the exemplars that are kept, about.", func(f *figures) float64 { return float64(f.engine.ExemplarBytes) }),
		counter("entries_invalid_total", "Entries of the log that could not be applied.", func(f *figures) float64 { return float64(f.engine.EntriesInvalid) }),
		gauge("entries_stalled", "Entries of the log that wait until the disk takes writes.", func(f *figures) float64 { return float64(f.engine.EntriesStalled) }),
		gauge("entries_stalled_bytes", "Memory of these entries.", func(f *figures) float64 { return float64(f.engine.StalledBytes) }),
		gauge("commit_queue_bytes_max", "The most bytes of writes that may wait for the log.", func(f *figures) float64 { return float64(f.queueMax) }),
		gauge("log_since_checkpoint_bytes", "Bytes of log that a restart would replay. Writes wait when checkpoints fail and this has become eight times what starts one.", func(f *figures) float64 { return float64(f.sinceCheckpoint) }),
		gauge("disk_full", "1 while there is no room for a further file of the log.", func(f *figures) float64 { return oneIf(f.log.AheadErr != nil) }),
		gauge("recovery_seconds", "How long the last start replayed the log.", func(f *figures) float64 { return f.recovery.Duration.Seconds() }),
		gauge("recovery_bytes", "Bytes of log that the last start replayed.", func(f *figures) float64 { return float64(f.recovery.Bytes) }),
	}
}

func logMetrics() []metric {
	return []metric{
		gauge("log_bytes", "Bytes of the log's files.", func(f *figures) float64 { return float64(f.log.Bytes) }),
		gauge("log_end_bytes", "Position of the end of the log.", func(f *figures) float64 { return float64(f.log.End) }),
		gauge("log_unsynced_bytes", "Bytes of the log that a power cut could take.", func(f *figures) float64 { return float64(f.log.End - f.log.Synced) }),
		counter("log_written_bytes_total", "Bytes written to the log's files.", func(f *figures) float64 { return float64(f.log.BytesWritten) }),
		counter("log_syncs_total", "Syncs of the log.", func(f *figures) float64 { return float64(f.log.Syncs) }),
		counter("log_sync_seconds_total", "Time in syncs of the log.", func(f *figures) float64 { return f.log.SyncTime.Seconds() }),
		gauge("log_spare_files", "Files of the log that are kept to be written again.", func(f *figures) float64 { return float64(f.log.Spares) }),
		counter("log_file_waits_total", "Writes that waited for a new file of the log.", func(f *figures) float64 { return float64(f.log.SwitchWaits) }),
		counter("log_damaged_total", "Damaged stretches of the log that were passed over.", func(f *figures) float64 { return float64(f.log.Corruptions) }),
		counter("log_torn_bytes_total", "Bytes behind the last complete record, cut at the start.", func(f *figures) float64 { return float64(f.log.TornBytes) }),
	}
}

func memoryMetrics() []metric {
	return []metric{
		gauge("series", "Series that were ever created.", func(f *figures) float64 { return float64(f.engine.Index.Series) }),
		gauge("series_table_used_ratio", "Share of the series that this data folder can ever have which were created: of 2^32 in all, of 2^31 in one shard, or of the 2^40 bytes that their names may take. At 1 new series are refused.", func(f *figures) float64 { return f.engine.Index.Used }),
		gauge("series_memory_max", "Series that there is memory for, by what those that there are take; further ones are refused. Infinite where memory has no bound.", func(f *figures) float64 {
			if f.seriesMax == math.MaxInt64 {
				return math.Inf(1)
			}
			return float64(f.seriesMax)
		}),
		counter("series_refused_total", "New series that were refused: by memory, a flag, or the rules of a database.", func(f *figures) float64 { return float64(f.seriesRefused) }),
		gauge("series_months_coarse", "Months of which the index does not know on which day series have samples: queries of a day look at all series of the month.", func(f *figures) float64 { return float64(f.engine.Index.MonthsCoarse) }),
		gauge("index_forgotten_bytes", "Memory of what tells which series are forgotten.", func(f *figures) float64 { return float64(f.engine.Index.ForgottenBytes) }),
		gauge("series_keyless", "Of the series of this data folder that are forgotten those whose keys have left the disk, or never came to it.", func(f *figures) float64 { return float64(f.engine.Index.Dropped) }),
		gauge("index_key_disk_bytes", "Bytes that keys of series take of the disk.", func(f *figures) float64 { return float64(f.engine.Index.KeyBytesHeld) }),
		counter("index_key_bytes_freed_total", "Bytes of keys of forgotten series that were given back to the disk.", func(f *figures) float64 { return float64(f.engine.Index.KeyBytesGiven) }),
		gauge("series_forgotten", "Series of this data folder that are forgotten.", func(f *figures) float64 { return float64(f.engine.Index.Forgotten) }),
		gauge("series_lost", "Series whose records were damaged.", func(f *figures) float64 { return float64(f.engine.Index.SeriesLost) }),
		gauge("series_unindexed", "Series that the postings do not have yet.", func(f *figures) float64 { return float64(f.engine.Index.Unindexed) }),
		gauge("series_hot", "Series with a head in memory.", func(f *figures) float64 { return float64(f.engine.Hot.Series) }),
		gauge("head_bytes", "Memory of the series' heads.", func(f *figures) float64 { return float64(f.engine.Hot.HeadBytes) }),
		gauge("hot_page_bytes", "Memory of hot pages, free ones included.", func(f *figures) float64 { return float64(f.engine.Hot.PageBytes) }),
		gauge("hot_pages_out_of_order", "Hot pages of samples out of order.", func(f *figures) float64 { return float64(f.engine.Hot.PagesOutOfOrder) }),
		counter("memory_reliefs_total", "Times that pages were sealed before they were full because the index and hot pages held more than their share of memory.", func(f *figures) float64 { return float64(f.engine.MemoryReliefs) }),
		gauge("index_table_bytes", "Memory of the series' hash table, without what is mapped.", func(f *figures) float64 { return float64(f.engine.Index.TableBytes) }),
		gauge("index_postings_bytes", "Memory of dictionary and postings, without what is mapped.", func(f *figures) float64 { return float64(f.engine.Index.PartBytes) }),
		gauge("index_persisted_bytes", "Bytes of the files that the index maps instead of holding them in memory: hash table, postings, places and ids of keys.", func(f *figures) float64 { return float64(f.engine.Index.PersistedBytes) }),
		counter("index_persist_errors_total", "Times that one of these files could not be written; what it is for stays in memory.", func(f *figures) float64 { return float64(f.engine.Index.PersistErrors) }),
		counter("index_rebuilt_total", "Times that the disk gave back something of these files otherwise than it was, so that it was built again from the keys.", func(f *figures) float64 { return float64(f.engine.Index.Rebuilt) }),
		gauge("index_keys_bytes", "Bytes of the file of keys, which is mapped.", func(f *figures) float64 { return float64(f.engine.Index.KeyFileBytes) }),
	}
}

func fileMetrics() []metric {
	return []metric{
		gauge("page_log_generations", "Generations of the page log that wait for a flush, the present one included.", func(f *figures) float64 { return float64(f.engine.Generations) }),
		gauge("page_log_generations_held", "Generations on disk, those that only scans hold included.", func(f *figures) float64 { return float64(f.engine.Pages.Generations) }),
		gauge("page_log_generations_max", "The most generations that there may be; then pages wait for flushes and scans.", func(*figures) float64 { return pagelog.GenerationsMax }),
		gauge("page_log_extents", "Files of the page log, each mapped.", func(f *figures) float64 { return float64(f.engine.Pages.Extents) }),
		counter("page_log_written_bytes_total", "Bytes written to the page log.", func(f *figures) float64 { return float64(f.engine.Pages.BytesWritten) }),
		counter("page_log_extent_waits_total", "Pages that waited for a new file.", func(f *figures) float64 { return float64(f.engine.Pages.ExtentWaits) }),
		gauge("page_log_bytes", "Bytes of the page log.", func(f *figures) float64 { return float64(f.engine.PageLogBytes) }),
		gauge("segments", "Segments.", func(f *figures) float64 { return float64(f.engine.Segments) }),
		gauge("segment_bytes", "Bytes of segments.", func(f *figures) float64 { return float64(f.engine.SegmentBytes) }),
		gauge("segment_samples", "Samples in segments.", func(f *figures) float64 { return float64(f.engine.SegmentSamples) }),
		gauge("tombstones", "Deletes, by shard, that still hide something.", func(f *figures) float64 { return float64(f.engine.Tombstones) }),
		gauge("tombstones_max", "The most of them; then deletes wait for compactions.", func(*figures) float64 { return manifest.TombstonesMax }),
		gauge("snapshots", "Snapshots that are held for backups. Files that have been replaced since stay on the disk until they end.", func(f *figures) float64 { return float64(f.snapshots.held) }),
		gauge("snapshots_max", "The most of them.", func(*figures) float64 { return snapshotsMax }),
		gauge("snapshot_seconds", "How long the last snapshot took.", func(f *figures) float64 { return f.snapshots.took.Seconds() }),
		counter("snapshots_taken_total", "Snapshots that were taken.", func(f *figures) float64 { return float64(f.snapshots.taken) }),
		counter("snapshot_samples_read_total", "Samples that reads of snapshots decoded, as backups do: of what has not changed they read digests.", func(f *figures) float64 { return float64(f.snapshots.reads.DecodedSamples) }),
		counter("snapshot_bytes_read_total", "Bytes of the blocks and pages that had these samples.", func(f *figures) float64 { return float64(f.snapshots.reads.DecodedBytes) }),
		counter("snapshot_digests_read_total", "Days of a series of which reads of snapshots took a digest or a rollup, and no sample.", func(f *figures) float64 { return float64(f.snapshots.reads.ScannedRollups) }),
		counter("snapshots_lapsed_total", "Snapshots that were given up before their end: nobody read them, they were a day old, the disk was full, or the node closed.", func(f *figures) float64 { return float64(f.snapshots.lapsed) }),
		counter("segments_expired_total", "Segments that retention dropped.", func(f *figures) float64 { return float64(f.engine.SegmentsExpired) }),
		counter("checkpoints_total", "Checkpoints.", func(f *figures) float64 { return float64(f.engine.Checkpoints) }),
		counter("flush_waits_total", "Writes that waited because many generations of the page log wait for a flush.", func(f *figures) float64 { return float64(f.engine.FlushWaits) }),
		counter("flushes_total", "Generations of the page log that became segments.", func(f *figures) float64 { return float64(f.engine.Flushes) }),
		counter("flushed_samples_total", "Samples in them.", func(f *figures) float64 { return float64(f.engine.FlushedSamples) }),
		counter("compactions_total", "Compactions.", func(f *figures) float64 { return float64(f.engine.Compactions) }),
		counter("compacted_samples_total", "Samples that compactions wrote.", func(f *figures) float64 { return float64(f.engine.CompactedSamples) }),
		gauge("compaction_bytes_waiting", "Bytes of the next compaction that waits until the disk has room for its output; 0: none does.", func(f *figures) float64 { return float64(f.engine.CompactionBytesWaiting) }),
		counter("compaction_failures_total", "Compactions that failed.", func(f *figures) float64 { return float64(f.engine.CompactionFailures) }),
		counter("damages_total", "Damaged parts of files that were met.", func(f *figures) float64 { return float64(f.engine.Corruptions) }),
		counter("scans_total", "Scans.", func(f *figures) float64 { return float64(f.engine.Scans) }),
		counter("scanned_samples_total", "Samples that scans read, rollups among them.", func(f *figures) float64 { return float64(f.engine.ScannedSamples) }),
		counter("scanned_rollups_total", "Rollups or digests of an hour or a day that scans read instead of its samples.", func(f *figures) float64 { return float64(f.engine.ScannedRollups) }),
	}
}

func clockMetrics() []metric {
	return []metric{
		gauge("clock_difference_seconds", "The greatest difference between this node's clock and another one's.", func(f *figures) float64 { return f.clocks.Difference().Seconds() }),
		gauge("retention_held", "1 while retention waits, since this node's clock does not agree with most others, or with any sample, or was set ahead.", func(f *figures) float64 { return oneIf(f.clocks.Held()) }),
	}
}
