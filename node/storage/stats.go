package storage

import (
	"context"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/compact"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/read"
)

// Stats are the engine's figures of the moment. Counters count since Open.
type Stats struct {
	Samples        int64 // applied
	SamplesSkipped int64 // of the log, older than retention or naming no series
	SamplesTooLate int64 // of hours of which only the last sample is kept
	EntriesInvalid int64
	// ExemplarsKept were kept, ExemplarsEvicted have made room for others since; ExemplarBytes is about the memory of those that are there.
	ExemplarsKept, ExemplarsEvicted, ExemplarBytes int64
	BatchesRepeated                                int64 // with the id of one that was applied
	// BatchesForgotten were refused, as they named series that are forgotten.
	BatchesForgotten int64
	SeriesForgotten  int64
	ForgetsLate      int64 // entries that forget and came too late to mean something
	EntriesStalled   int64 // waiting for the disk
	StalledBytes     int64 // of their bodies

	Checkpoints, Flushes, FlushedSamples int64
	FlushWaits                           int64 // writers that waited for a flush
	MemoryReliefs                        int64 // pages were sealed because memory was short
	SeriesBytes                          int64 // of the index and of hot pages
	Corruptions                          int64
	compact.Totals
	read.Stats

	Index              index.Stats
	Hot                page.Stats // of all shards together
	Generations        int        // of the page log
	PageLogBytes       int64
	Segments           int
	SegmentBytes       int64
	SegmentSamples     int64
	Tombstones         int
	TombstoneSeriesMax int
	Pages              pagelog.Stats
}

// engineStats are counted where things happen.
type engineStats struct {
	samples, samplesSkipped, samplesTooLate atomic.Int64
	entriesInvalid                          atomic.Int64
	batchesRepeated, batchesForgotten       atomic.Int64
	forgotten, forgetsLate                  atomic.Int64
	checkpoints, flushes, flushedSamples    atomic.Int64
	corruptions, flushWaits                 atomic.Int64
	exemplarsKept, exemplarsEvicted         atomic.Int64
	exemplarBytes                           atomic.Int64 // at present
}

// Stats returns the present figures. It looks at each shard in turn. After Close
// all are 0.
func (e *Engine) Stats() Stats {
	_, leave, err := e.readers.Enter(context.Background())
	if err != nil {
		return Stats{}
	}
	defer leave()
	c := &e.stats
	s := Stats{
		Samples: c.samples.Load(), SamplesSkipped: c.samplesSkipped.Load(), SamplesTooLate: c.samplesTooLate.Load(), EntriesInvalid: c.entriesInvalid.Load(),
		ExemplarsKept: c.exemplarsKept.Load(), ExemplarsEvicted: c.exemplarsEvicted.Load(), ExemplarBytes: c.exemplarBytes.Load(),
		BatchesRepeated: c.batchesRepeated.Load(), BatchesForgotten: c.batchesForgotten.Load(),
		SeriesForgotten: c.forgotten.Load(), ForgetsLate: c.forgetsLate.Load(),
		Checkpoints: c.checkpoints.Load(), Flushes: c.flushes.Load(), FlushedSamples: c.flushedSamples.Load(), FlushWaits: c.flushWaits.Load(),
		Corruptions: c.corruptions.Load(), Totals: e.Compactor.Stats(),
		Stats:         e.Source.Stats(),
		MemoryReliefs: e.reliefs.Load(), SeriesBytes: e.SeriesBytes(),
		Index: e.index.Stats(),
	}
	for _, sh := range e.shards {
		sh.mu.Lock()
		hot := sh.mu.set.Stats()
		s.EntriesStalled += int64(len(sh.mu.backlog))
		for i := range sh.mu.backlog {
			s.StalledBytes += int64(len(sh.mu.backlog[i].entry.Body))
		}
		sh.mu.Unlock()
		s.Hot.Series += hot.Series
		s.Hot.PagesOutOfOrder += hot.PagesOutOfOrder
		s.Hot.HeadBytes += hot.HeadBytes
		s.Hot.PageBytes += hot.PageBytes
		s.Hot.OutOfOrderBytes += hot.OutOfOrderBytes
		for class := range hot.Pages {
			s.Hot.Pages[class] += hot.Pages[class]
			s.Hot.PagesFree[class] += hot.PagesFree[class]
		}
	}
	s.Generations, s.PageLogBytes = e.Generations()
	s.Pages = e.pages.Stats()
	v := e.files.Acquire()
	defer e.files.Leave(v)
	s.Segments, s.Tombstones = len(v.Segments), len(v.Tombstones)
	for _, r := range v.Segments {
		s.SegmentBytes += r.Meta().Bytes
		s.SegmentSamples += r.Meta().Samples
	}
	for i := range v.Tombstones {
		s.TombstoneSeriesMax = max(s.TombstoneSeriesMax, len(v.Tombstones[i].IDs))
	}
	return s
}

// Tombstones returns the number of deletes that still hide something.
func (e *Engine) Tombstones() int { return len(e.files.Current().Tombstones) }

// ForgottenRefused returns how many batches were refused since the start, as they named series that are forgotten.
func (e *Engine) ForgottenRefused() int64 { return e.stats.batchesForgotten.Load() }

// SamplesApplied returns the number of samples that were applied since the start.
func (e *Engine) SamplesApplied() int64 { return e.stats.samples.Load() }

// ShardStats are the figures of one shard.
type ShardStats struct {
	Applied        uint64 // the last entry
	Hosted         bool   // there is a replica: see DropShard
	Series         uint32 // ids that were given
	CutMs          int64  // samples before it are gone
	HotBytes       int64  // memory of hot pages and heads
	SegmentBytes   int64  // on disk, without the page log
	SegmentSamples int64  // with those that are hidden by deletes or overwritten
	BatchSessions  int    // whose batch ids are remembered
}

// ShardStats returns the present figures of a shard; of one that does not exist, or
// after Close, none.
func (e *Engine) ShardStats(shard uint16) (stats ShardStats) {
	_, leave, err := e.readers.Enter(context.Background())
	if err != nil {
		return ShardStats{}
	}
	defer leave()
	if int(shard) >= len(e.shards) {
		return ShardStats{}
	}
	s := e.shards[shard]
	s.mu.Lock()
	hot := s.mu.set.Stats()
	stats = ShardStats{
		Applied: s.mu.applied, Hosted: !s.absent.Load(), CutMs: s.cutMs.Load(),
		HotBytes: int64(hot.Bytes()), BatchSessions: s.mu.ledger.Sessions(),
	}
	s.mu.Unlock()
	stats.Series = e.index.ShardSeries(shard)
	v := e.files.Acquire()
	defer e.files.Leave(v)
	for _, r := range v.Segments {
		if v.Hides(r.Meta(), shard) {
			continue
		}
		if info, ok := r.ShardInfo(shard); ok {
			stats.SegmentBytes += info.Bytes
			stats.SegmentSamples += info.Samples
		}
	}
	return stats
}

func (e *Engine) reportCorruption(err error) {
	e.stats.corruptions.Add(1)
	e.log.Error("damaged data; what it does not touch keeps serving", "error", err)
}
