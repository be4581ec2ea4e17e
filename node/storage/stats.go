package storage

import (
	"context"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

// Stats are the engine's figures of the moment. Counters count since Open.
type Stats struct {
	Samples         int64 // applied
	SamplesSkipped  int64 // of the log, older than retention or naming no series
	EntriesInvalid  int64
	BatchesRepeated int64 // with the id of one that was applied
	EntriesStalled  int64 // waiting for the disk
	StalledBytes    int64 // of their bodies

	Checkpoints, Flushes, Compactions int64
	FlushedSamples, CompactedSamples  int64
	FlushWaits                        int64 // writers that waited for a flush
	MemoryReliefs                     int64 // pages were sealed because memory was short
	SeriesBytes                       int64 // of the index and of hot pages
	CompactionFailures, Corruptions   int64
	CompactionBytesWaiting            int64 // of a compaction that the disk has no room for
	SegmentsExpired                   int64 // dropped by retention
	Scans, ScannedSamples             int64
	ScannedRollups                    int64 // hours and days of a series of which no sample was read

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
	samples, samplesSkipped, entriesInvalid atomic.Int64
	batchesRepeated                         atomic.Int64
	checkpoints, flushes, compactions       atomic.Int64
	flushedSamples, compactedSamples        atomic.Int64
	compactionFailures, corruptions         atomic.Int64
	compactionBytesWaiting                  atomic.Int64 // for room on the disk
	segmentsExpired, flushWaits             atomic.Int64
	scans, scannedSamples, scannedRollups   atomic.Int64
}

// Stats returns the present figures. It looks at each shard in turn. After Close
// all are 0.
func (e *Engine) Stats() Stats {
	_, leave, err := e.readers.enter(context.Background())
	if err != nil {
		return Stats{}
	}
	defer leave()
	c := &e.stats
	s := Stats{
		Samples: c.samples.Load(), SamplesSkipped: c.samplesSkipped.Load(), EntriesInvalid: c.entriesInvalid.Load(),
		BatchesRepeated: c.batchesRepeated.Load(),
		Checkpoints:     c.checkpoints.Load(), Flushes: c.flushes.Load(), Compactions: c.compactions.Load(),
		FlushedSamples: c.flushedSamples.Load(), CompactedSamples: c.compactedSamples.Load(), FlushWaits: c.flushWaits.Load(),
		CompactionFailures: c.compactionFailures.Load(), CompactionBytesWaiting: c.compactionBytesWaiting.Load(), Corruptions: c.corruptions.Load(),
		SegmentsExpired: c.segmentsExpired.Load(),
		Scans:           c.scans.Load(), ScannedSamples: c.scannedSamples.Load(), ScannedRollups: c.scannedRollups.Load(),
		MemoryReliefs: e.memory.reliefs.Load(), SeriesBytes: e.SeriesBytes(),
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
	v := e.versions.acquire()
	defer e.versions.leave(v)
	s.Segments, s.Tombstones = len(v.segments), len(v.tombstones)
	for _, r := range v.segments {
		s.SegmentBytes += r.Meta().Bytes
		s.SegmentSamples += r.Meta().Samples
	}
	for i := range v.tombstones {
		s.TombstoneSeriesMax = max(s.TombstoneSeriesMax, len(v.tombstones[i].IDs))
	}
	return s
}

// Tombstones returns the number of deletes that still hide something.
func (e *Engine) Tombstones() int { return len(e.versions.peek().tombstones) }

// SamplesApplied returns the number of samples that were applied since the start.
func (e *Engine) SamplesApplied() int64 { return e.stats.samples.Load() }
