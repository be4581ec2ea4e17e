package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Compact does the next compaction that is due and that the disk has room for, and reports whether
// there was one. A segment that turns out to be damaged is not compacted any more. A partition
// whose compaction failed is not tried again for a while, so that others go first. Checkpoints and
// flushes run meanwhile; Retain waits.
func (e *Engine) Compact(ctx context.Context, nowMs int64) (did bool, err error) {
	e.rewriting.Lock()
	defer e.rewriting.Unlock()
	job, ok, err := e.planCompaction(nowMs)
	if err != nil || !ok {
		return false, err
	}
	if err := e.failpoints.Hit(FailCompactMerge); err != nil {
		return false, err
	}
	if did, err = e.compact(ctx, &job); err != nil {
		if ctx.Err() == nil {
			e.failed.note(job.Partition, nowMs)
		}
		return did, fmt.Errorf("compact (%s): %w", job.Reason, err)
	}
	e.failed.forget(job.Partition)
	return did, e.failpoints.Hit(FailCompactDone)
}

// planCompaction returns the next job that the disk has room for. The caller holds rewriting.
func (e *Engine) planCompaction(nowMs int64) (job segment.Job, ok bool, err error) {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	if err := e.settleManifest(); err != nil {
		return job, false, err
	}
	room, free, err := e.compactionRoom()
	if err != nil {
		return job, false, err
	}
	limits := jobLimits{bytesMax: room, freeingBytesMax: free, avoid: func(p segment.Partition) bool { return e.failed.waits(p, nowMs) }, purge: e.purgeDue(nowMs)}
	if job, ok = e.proposeJob(nowMs, limits); ok || room == segment.JobBytesMax {
		e.stats.compactionBytesWaiting.Store(0)
		return job, ok, nil
	}
	// It is told what waits until there is room.
	limits.bytesMax, limits.freeingBytesMax = segment.JobBytesMax, segment.JobBytesMax
	waiting, ok := e.proposeJob(nowMs, limits)
	bytes := int64(0)
	if ok {
		bytes = waiting.Bytes()
	}
	if before := e.stats.compactionBytesWaiting.Swap(bytes); bytes > 0 && before == 0 {
		e.log.Warn("a compaction waits until the disk has room for its output", "reason", waiting.Reason, "bytes", bytes, "room", max(room, 0))
	}
	return segment.Job{}, false, nil
}

// jobLimits bound the jobs that may be done now.
type jobLimits struct {
	bytesMax        int64 // of the inputs
	freeingBytesMax int64 // of the input of a job that frees more than it takes, once it is over
	avoid           func(segment.Partition) bool
	purge           uint64 // tombstones up to this number are due
}

// allow reports whether a segment may be written anew without what is deleted.
func (l *jobLimits) allow(m *segment.Meta) bool {
	return m.Bytes <= l.freeingBytesMax && !l.avoid(m.Partition)
}

// proposeJob returns the next job within limits: merges come first, as they carry out deletes and
// cuts, too. The caller holds maintenance.
func (e *Engine) proposeJob(nowMs int64, limits jobLimits) (segment.Job, bool) {
	settings := segment.Settings{SpanMax: segment.SpanMaxOf(e.keepMs.Load()), JobBytesMax: max(limits.bytesMax, 1), Avoid: limits.avoid}
	if job, ok := segment.PlanCompaction(e.manifest.Segments, nowMs, settings); ok {
		return job, true
	}
	for _, plan := range [...]func(*jobLimits) (segment.Job, bool){e.planPurge, e.planRules, e.planReclaim} {
		if job, ok := plan(&limits); ok {
			return job, true
		}
	}
	return segment.Job{}, false
}

// KeepFor sets how long samples are kept, in milliseconds; 0 is for ever. Compactions make no
// partition wider than a tenth of it, so that a partition's samples do not stay on disk much
// longer than retention wants.
func (e *Engine) KeepFor(keepMs int64) { e.keepMs.Store(keepMs) }

// compactionReserve is the room that compactions leave free on the disk, in generations of the page
// log: for the one that is being written, and for the segments of one that is flushed.
const compactionReserve = 2

// compactionRoom returns how many bytes a job may have that needs as much room again, and one that
// leaves out what is deleted: on a full disk such jobs are what lets others go on, so that they
// leave nothing free for a flush beside them.
func (e *Engine) compactionRoom() (room, free int64, err error) {
	if free, err = e.fs.Free(e.dir); err != nil {
		return 0, 0, fmt.Errorf("room for a compaction: %w", err)
	}
	return min(free-compactionReserve*e.options.GenerationBytesMax, segment.JobBytesMax), min(free, segment.JobBytesMax), nil
}

// compact carries out a job, and reports whether it has done anything: merged, or found damage.
func (e *Engine) compact(ctx context.Context, job *segment.Job) (did bool, err error) {
	v, inputs := e.holdInputs(job.Inputs)
	defer e.letGo(inputs)
	if len(inputs) != len(job.Inputs) { // some could not be opened
		e.stats.compactionFailures.Add(1)
		return true, e.markDamaged(slices.DeleteFunc(slices.Clone(job.Inputs), func(m segment.Meta) bool {
			return slices.ContainsFunc(inputs, func(r *segment.Reader) bool { return r.Meta().Name == m.Name })
		}))
	}
	cuts := e.shardCuts() // as they are now: what is hidden must not change during the merge
	metas, err := segment.Merge(ctx, inputs, e.mergeOptions(job, v, &cuts))
	var corrupt *segment.CorruptError
	if errors.As(err, &corrupt) {
		e.stats.compactionFailures.Add(1)
		e.reportCorruption(err)
		e.noteDamage(corrupt.Shard, err)
		return true, e.markDamaged(slices.DeleteFunc(slices.Clone(job.Inputs), func(m segment.Meta) bool {
			return m.Name != path.Base(corrupt.File)
		}))
	}
	if err != nil {
		e.stats.compactionFailures.Add(1)
		return false, err
	}
	if err := e.replaceSegments(job.Inputs, inputs, metas, v.tombstones.last(), &cuts, FailCompactPublish); err != nil {
		return false, err
	}
	e.stats.compactions.Add(1)
	for i := range metas {
		e.stats.compactedSamples.Add(metas[i].Samples)
	}
	return true, nil
}

// holdInputs returns the present version and the open segments of a job. It holds the segments
// only: a merge may take long, and by holding the version it would hold generations of the page
// log that are flushed meanwhile, until there are too many and writes are refused.
func (e *Engine) holdInputs(metas []segment.Meta) (*version, []*segment.Reader) {
	v := e.versions.acquire()
	defer e.versions.release(v)
	inputs := v.readersOf(metas)
	for _, r := range inputs {
		if !r.Acquire() {
			panic("BUG: a segment of a version that is held was given up")
		}
	}
	return v, inputs
}

// letGo releases segments. The last release of a replaced one deletes its file.
func (e *Engine) letGo(readers []*segment.Reader) {
	for _, r := range readers {
		if err := r.Release(); err != nil {
			e.log.Error("a replaced segment stays on disk until the next start", "error", err)
		}
	}
}

// mergeOptions returns the options of a job's merge, which leaves out what v and cuts hide.
func (e *Engine) mergeOptions(job *segment.Job, v *version, cuts *shardCuts) segment.MergeOptions {
	return segment.MergeOptions{
		Options: segment.Options{
			FS: e.fs, Dir: path.Join(e.dir, dirSegments), Partition: job.Partition, Level: job.Level,
			SequenceLow: job.Inputs[0].SequenceLow, SequenceHigh: job.Inputs[len(job.Inputs)-1].SequenceHigh,
			BlockSamples: job.BlockSamples, Dense: job.Dense, Rollups: job.Rollups,
		},
		BytesMax:  e.options.SegmentBytesMax,
		SkipShard: func(input *segment.Meta, shard uint16) bool { return v.hides(input, shard) },
		Hidden: func(dst []segment.TimeRange, input *segment.Meta, shard uint16, id uint32) []segment.TimeRange {
			if cut := cuts.of(e, shard, id); cut > input.MinMs {
				dst = append(dst, segment.TimeRange{FromMs: input.MinMs, ToMs: cut - 1})
			}
			for _, hide := range hiddenInSegment(v.tombstones.of(shard, id), input.SequenceHigh) {
				dst = append(dst, segment.TimeRange{FromMs: hide.fromMs, ToMs: hide.toMs})
			}
			return dst
		},
	}
}

// readersOf returns the open readers of metas, in their order.
func (v *version) readersOf(metas []segment.Meta) []*segment.Reader {
	var readers []*segment.Reader
	for i := range metas {
		for _, r := range v.segments {
			if r.Meta().Name == metas[i].Name {
				readers = append(readers, r)
			}
		}
	}
	return readers
}

// markDamaged notes in the manifest that segments are damaged, so that no further compaction
// takes them.
func (e *Engine) markDamaged(metas []segment.Meta) error {
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	return e.publishManifest(FailCompactPublish, func(m *manifest) {
		m.Segments = slices.Clone(m.Segments)
		for i := range m.Segments {
			if slices.ContainsFunc(metas, sameName(&m.Segments[i])) {
				m.Segments[i].Damaged = true
			}
		}
	})
}

func sameName(m *segment.Meta) func(segment.Meta) bool {
	return func(other segment.Meta) bool { return other.Name == m.Name }
}

// replaceSegments publishes new segments in place of old ones. The new ones lack what the
// tombstones up to purged and cuts hide. The old files are deleted when no scan reads them.
func (e *Engine) replaceSegments(old []segment.Meta, oldReaders []*segment.Reader, metas []segment.Meta, purged uint64, cuts *shardCuts, failBefore string) error {
	readers, err := e.openNew(metas)
	if err != nil {
		return err
	}
	e.maintenance.Lock()
	defer e.maintenance.Unlock()
	err = e.publishManifest(failBefore, func(m *manifest) {
		m.Segments = slices.DeleteFunc(slices.Clone(m.Segments), func(s segment.Meta) bool {
			return slices.ContainsFunc(old, sameName(&s))
		})
		m.Segments = append(m.Segments, metas...)
		m.purge(metas, purged)
		m.work(e, metas, cuts)
		m.Excluded = m.Excluded.of(m.Segments)
	})
	if err != nil {
		return errors.Join(err, unpublished(err, readers))
	}
	e.changeVersion(func(v *version) {
		kept := slices.DeleteFunc(slices.Clone(v.segments), func(r *segment.Reader) bool {
			return slices.Contains(oldReaders, r)
		})
		v.segments = orderSegments(append(kept, readers...))
		v.tombstones = v.tombstones.needed(e.manifest.Segments, e.manifest.Purged, v.generationOldest, e.coming)
		v.excluded, v.missing = e.manifest.Excluded, stillMissing(v.missing, e.manifest.Segments)
	}, dropped{segments: []func(){func() {
		if err := discard(oldReaders); err != nil {
			e.log.Error("replaced segments stay on disk until the next start", "error", err)
		}
	}}})
	return nil
}

// purgeTombstones is the number of tombstones above which segments are rewritten only to carry
// them out, however young the tombstones are.
const purgeTombstones = 1 << 10

// purgeDue returns the number up to which tombstones are worth rewriting segments only to carry
// them out. The caller holds rewriting and maintenance.
func (e *Engine) purgeDue(nowMs int64) uint64 {
	e.update.Lock()
	last := e.tombstoneLast
	e.update.Unlock()
	return max(e.ages.due(last, nowMs), e.purgeThrough.Load())
}

// planPurge returns the job that rewrites the segment with the most tombstones that are due. The
// caller holds maintenance.
func (e *Engine) planPurge(limits *jobLimits) (segment.Job, bool) {
	stones := e.versions.peek().tombstones
	due := limits.purge
	if len(stones) > purgeTombstones {
		due = math.MaxUint64
	}
	var chosen *segment.Meta
	most := 0
	for i := range e.manifest.Segments {
		m := &e.manifest.Segments[i]
		pending := 0
		for j := range stones {
			if stones[j].Number <= due && stones[j].concerns(m, e.manifest.Purged) {
				pending++
			}
		}
		if pending > most && !m.Damaged && m.Level < math.MaxUint8 && limits.allow(m) {
			chosen, most = m, pending
		}
	}
	if chosen == nil {
		return segment.Job{}, false
	}
	return rewriteJob(chosen, "purge"), true
}

// rewriteJob returns a job that rewrites one segment without what is hidden.
func rewriteJob(m *segment.Meta, reason string) segment.Job {
	return segment.Job{
		Inputs: []segment.Meta{*m}, Partition: m.Partition, Level: m.Level + 1,
		BlockSamples: m.BlockSamples, Dense: m.Dense, Rollups: m.Rollups, Reason: reason,
	}
}
