package compact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Failpoints of a Compactor.
const (
	FailMerge         = "compact/before-merge"
	FailPublish       = "compact/before-publish"
	FailDone          = "compact/after-publish"
	FailExpirePublish = "retention/before-publish"
)

// Options configure a Compactor.
type Options struct {
	FS    vfs.FS
	Dir   string // of which the free room counts
	Files *manifest.Store
	Cuts  func() retention.Snapshot // as they are at the call
	Thin  func() retention.Snapshot // cuts by which files may be thinned, as they are at the call
	Keys  retention.Keys
	// Gone reports whether a series is forgotten, and its key with it: nothing of it counts.
	Gone  func(shard uint16, id uint32) bool
	Hosts func(shard uint16) bool // whether a shard has a replica here that may have samples

	GenerationBytesMax int64 // of the page log: room that compactions leave free
	SegmentBytesMax    int64 // a merge splits larger outputs
	Corrupt            func(error)
	Logger             *slog.Logger
	Hit                func(failpoint string) error // a failpoint is met
}

// Compactor merges segments, and drops those that are too old. It alone takes segments away. All
// methods may be called from many goroutines.
type Compactor struct {
	o            Options
	keepMs       atomic.Int64  // how long samples are kept; 0: for ever
	purgeThrough atomic.Uint64 // tombstones up to this number are due

	rewriting sync.Mutex    // held by what takes segments away; before an Edit
	failed    failedJobs    // guarded by rewriting
	ages      tombstoneAges // guarded by rewriting

	compactions, samples, failures, expired atomic.Int64
	bytesWaiting                            atomic.Int64 // for room on the disk
}

// New returns the compactor of a store's segments.
func New(o Options) *Compactor { return &Compactor{o: o} }

// Totals are a Compactor's figures.
type Totals struct {
	Compactions, CompactedSamples int64
	CompactionFailures            int64
	CompactionBytesWaiting        int64 // of a compaction that the disk has no room for
	SegmentsExpired               int64 // dropped by retention
}

// Stats returns the present figures.
func (c *Compactor) Stats() Totals {
	return Totals{
		Compactions: c.compactions.Load(), CompactedSamples: c.samples.Load(), CompactionFailures: c.failures.Load(),
		CompactionBytesWaiting: c.bytesWaiting.Load(), SegmentsExpired: c.expired.Load(),
	}
}

// Pause waits for the compaction that runs, and holds back others until the result is called.
func (c *Compactor) Pause() (resume func()) {
	c.rewriting.Lock()
	return c.rewriting.Unlock
}

// Expire drops the segments that end before a cut, which is asked for while no manifest is
// published. The caller has paused compactions.
func (c *Compactor) Expire(cutMs func() int64) error {
	edit := c.o.Files.Edit()
	expired := segment.Expired(edit.Present().Segments, cutMs())
	edit.End()
	if len(expired) == 0 {
		return nil
	}
	readers := c.o.Files.Current().ReadersOf(expired) // nobody else takes segments away
	if err := c.replaceSegments(expired, readers, nil, 0, nil, nil, FailExpirePublish); err != nil {
		return err
	}
	c.expired.Add(int64(len(expired)))
	return nil
}

// Compact does the next compaction that is due and that the disk has room for, and reports whether
// there was one. A segment that turns out to be damaged is not compacted any more. A partition
// whose compaction failed is not tried again for a while, so that others go first. Checkpoints and
// flushes run meanwhile; Retain waits.
func (c *Compactor) Compact(ctx context.Context, nowMs int64) (did bool, err error) {
	c.rewriting.Lock()
	defer c.rewriting.Unlock()
	job, ok, err := c.planCompaction(nowMs)
	if err != nil || !ok {
		return false, err
	}
	if err := c.o.Hit(FailMerge); err != nil {
		return false, err
	}
	if did, err = c.compact(ctx, &job); err != nil {
		if ctx.Err() == nil {
			c.failed.note(job.Partition, nowMs)
		}
		return did, fmt.Errorf("compact (%s): %w", job.Reason, err)
	}
	c.failed.forget(job.Partition)
	return did, c.o.Hit(FailDone)
}

// planCompaction returns the next job that the disk has room for. The caller holds rewriting.
func (c *Compactor) planCompaction(nowMs int64) (job segment.Job, ok bool, err error) {
	edit := c.o.Files.Edit()
	defer edit.End()
	if err := edit.Resolve(); err != nil {
		return job, false, err
	}
	m := edit.Present()
	room, free, err := c.compactionRoom()
	if err != nil {
		return job, false, err
	}
	limits := jobLimits{bytesMax: room, freeingBytesMax: free, avoid: func(p segment.Partition) bool { return c.failed.waits(p, nowMs) }, purge: c.purgeDue(nowMs)}
	if job, ok = c.proposeJob(m, nowMs, limits); ok || room == segment.JobBytesMax {
		c.bytesWaiting.Store(0)
		return job, ok, nil
	}
	// It is told what waits until there is room.
	limits.bytesMax, limits.freeingBytesMax = segment.JobBytesMax, segment.JobBytesMax
	waiting, ok := c.proposeJob(m, nowMs, limits)
	bytes := int64(0)
	if ok {
		bytes = waiting.Bytes()
	}
	if before := c.bytesWaiting.Swap(bytes); bytes > 0 && before == 0 {
		c.o.Logger.Warn("a compaction waits until the disk has room for its output", "reason", waiting.Reason, "bytes", bytes, "room", max(room, 0))
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
// cuts, too.
func (c *Compactor) proposeJob(m *manifest.Manifest, nowMs int64, limits jobLimits) (segment.Job, bool) {
	settings := segment.Settings{SpanMax: c.SpanMax(), JobBytesMax: max(limits.bytesMax, 1), Avoid: limits.avoid}
	if job, ok := segment.PlanCompaction(m.Segments, nowMs, settings); ok {
		return job, true
	}
	for _, plan := range [...]func(*manifest.Manifest, *jobLimits) (segment.Job, bool){c.planPurge, c.planRules, c.planThin, c.planReclaim} {
		if job, ok := plan(m, &limits); ok {
			return job, true
		}
	}
	return segment.Job{}, false
}

// KeepFor sets how long samples are kept, in milliseconds; 0 is for ever. Flushes and compactions make no
// partition wider than a tenth of it, so that a partition's samples do not stay on disk much
// longer than retention wants.
func (c *Compactor) KeepFor(keepMs int64) { c.keepMs.Store(keepMs) }

// SpanMax returns the widest partition that this allows.
func (c *Compactor) SpanMax() segment.Span { return segment.SpanMaxOf(c.keepMs.Load()) }

// Reserve is the room that compactions and files of the index leave free on the disk, in generations of the page
// log: for the one that is being written, and for the segments of one that is flushed.
const Reserve = 2

// compactionRoom returns how many bytes a job may have that needs as much room again, and one that
// leaves out what is deleted: on a full disk such jobs are what lets others go on, so that they
// leave nothing free for a flush beside them.
func (c *Compactor) compactionRoom() (room, free int64, err error) {
	if free, err = c.o.FS.Free(c.o.Dir); err != nil {
		return 0, 0, fmt.Errorf("room for a compaction: %w", err)
	}
	return min(free-Reserve*c.o.GenerationBytesMax, segment.JobBytesMax), min(free, segment.JobBytesMax), nil
}

// compact carries out a job, and reports whether it has done anything: merged, or found damage.
func (c *Compactor) compact(ctx context.Context, job *segment.Job) (did bool, err error) {
	thinnable := c.o.Thin() // before the version, which so has all that files may be thinned by
	v, inputs := c.holdInputs(job.Inputs)
	defer c.letGo(inputs)
	if len(inputs) != len(job.Inputs) { // some could not be opened
		c.failures.Add(1)
		return true, c.markDamaged(slices.DeleteFunc(slices.Clone(job.Inputs), func(m segment.Meta) bool {
			return slices.ContainsFunc(inputs, func(r *segment.Reader) bool { return r.Meta().Name == m.Name })
		}))
	}
	cuts := c.o.Cuts() // as they are now: what is hidden must not change during the merge
	thin := thinCuts(job, v, &thinnable)
	options := c.mergeOptions(job, v, &cuts, thin)
	var turn processor.Turn
	defer turn.Close()
	options.Yield = turn.Yield
	metas, err := segment.Merge(ctx, inputs, options)
	var corrupt *segment.CorruptError
	if errors.As(err, &corrupt) {
		c.failures.Add(1)
		c.o.Corrupt(err)
		c.o.Files.NoteDamage(corrupt.Shard, err)
		return true, c.markDamaged(slices.DeleteFunc(slices.Clone(job.Inputs), func(m segment.Meta) bool {
			return m.Name != path.Base(corrupt.File)
		}))
	}
	if err != nil {
		c.failures.Add(1)
		return false, err
	}
	if err := c.replaceSegments(job.Inputs, inputs, metas, v.Tombstones.Last(), &cuts, thin, FailPublish); err != nil {
		return false, err
	}
	c.compactions.Add(1)
	for i := range metas {
		c.samples.Add(metas[i].Samples)
	}
	return true, nil
}

// holdInputs returns the present version and the open segments of a job. It holds the segments
// only: a merge may take long, and by holding the version it would hold generations of the page
// log that are flushed meanwhile, until there are too many and writes are refused.
func (c *Compactor) holdInputs(metas []segment.Meta) (*manifest.Version, []*segment.Reader) {
	v := c.o.Files.Acquire()
	defer c.o.Files.Release(v)
	inputs := v.ReadersOf(metas)
	for _, r := range inputs {
		if !r.Acquire() {
			panic("BUG: a segment of a version that is held was given up")
		}
	}
	return v, inputs
}

// letGo releases segments. The last release of a replaced one deletes its file.
func (c *Compactor) letGo(readers []*segment.Reader) {
	for _, r := range readers {
		if err := r.Release(); err != nil {
			c.o.Logger.Error("a replaced segment stays on disk until the next start", "error", err)
		}
	}
}

// mergeOptions returns the options of a job's merge, which leaves out what v and cuts hide, and thins by others, if they are
// not nil.
func (c *Compactor) mergeOptions(job *segment.Job, v *manifest.Version, cuts, thin *retention.Snapshot) segment.MergeOptions {
	o := segment.MergeOptions{
		Options: segment.Options{
			FS: c.o.FS, Dir: c.o.Files.Folder(), Partition: job.Partition, Level: job.Level,
			SequenceLow: job.Inputs[0].SequenceLow, SequenceHigh: job.Inputs[len(job.Inputs)-1].SequenceHigh,
			BlockSamples: job.BlockSamples, Dense: job.Dense, Rollups: job.Rollups,
		},
		BytesMax:  c.o.SegmentBytesMax,
		SkipShard: func(input *segment.Meta, shard uint16) bool { return v.Hides(input, shard) },
		Hidden: func(dst []segment.TimeRange, input *segment.Meta, shard uint16, id uint32) []segment.TimeRange {
			if c.o.Gone(shard, id) {
				return append(dst, segment.TimeRange{FromMs: input.MinMs, ToMs: input.MaxMs})
			}
			if cut := cuts.Of(c.o.Keys, shard, id); cut > input.MinMs {
				dst = append(dst, segment.TimeRange{FromMs: input.MinMs, ToMs: cut - 1})
			}
			return append(dst, manifest.HiddenInSegment(v.Tombstones.Of(shard, id), input.SequenceHigh)...)
		},
	}
	if thin != nil {
		o.ThinBefore = func(shard uint16, id uint32) int64 { return thin.Of(c.o.Keys, shard, id) }
	}
	return o
}

// markDamaged notes in the manifest that segments are damaged, so that no further compaction
// takes them.
func (c *Compactor) markDamaged(metas []segment.Meta) error {
	edit := c.o.Files.Edit()
	defer edit.End()
	return edit.Publish(FailPublish, func(m *manifest.Manifest) {
		m.Segments = slices.Clone(m.Segments)
		for i := range m.Segments {
			if slices.ContainsFunc(metas, manifest.SameName(&m.Segments[i])) {
				m.Segments[i].Damaged = true
			}
		}
	})
}

// replaceSegments publishes new segments in place of old ones. The new ones lack what the
// tombstones up to purged and cuts hide. The old files are deleted when no scan reads them.
func (c *Compactor) replaceSegments(old []segment.Meta, oldReaders []*segment.Reader, metas []segment.Meta, purged uint64, cuts, thin *retention.Snapshot, failBefore string) error {
	readers, err := c.o.Files.OpenNew(metas)
	if err != nil {
		return err
	}
	edit := c.o.Files.Edit()
	defer edit.End()
	err = edit.Publish(failBefore, func(m *manifest.Manifest) {
		m.Segments = slices.DeleteFunc(slices.Clone(m.Segments), func(s segment.Meta) bool {
			return slices.ContainsFunc(old, manifest.SameName(&s))
		})
		m.Segments = append(m.Segments, metas...)
		m.NotePurged(metas, purged)
		m.NoteMerged(metas, cuts, thin, c.o.Hosts)
		m.Suppressed = m.Suppressed.Of(m.Segments)
	})
	if err != nil {
		return errors.Join(err, manifest.Unpublished(err, readers))
	}
	edit.Replaced(oldReaders, readers)
	return nil
}

// purgeTombstones is the number of tombstones above which segments are rewritten only to carry
// them out, however young the tombstones are.
const purgeTombstones = 1 << 10

// purgeDue returns the number up to which tombstones are worth rewriting segments only to carry
// them out. The caller holds rewriting.
func (c *Compactor) purgeDue(nowMs int64) uint64 {
	return max(c.ages.due(c.o.Files.TombstoneLast(), nowMs), c.purgeThrough.Load())
}

// planPurge returns the job that rewrites the segment with the most tombstones that are due.
func (c *Compactor) planPurge(m *manifest.Manifest, limits *jobLimits) (segment.Job, bool) {
	stones := c.o.Files.Current().Tombstones
	due := limits.purge
	if len(stones) > purgeTombstones {
		due = math.MaxUint64
	}
	var chosen *segment.Meta
	most := 0
	for i := range m.Segments {
		s := &m.Segments[i]
		pending := 0
		for j := range stones {
			if stones[j].Number <= due && stones[j].Concerns(s, m.Purged) {
				pending++
			}
		}
		if pending > most && !s.Damaged && s.Level < math.MaxUint8 && limits.allow(s) {
			chosen, most = s, pending
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

// planRules returns the job that takes samples out of a segment which a cut of some rule has
// passed since it was written.
func (c *Compactor) planRules(m *manifest.Manifest, limits *jobLimits) (segment.Job, bool) {
	cuts := c.o.Cuts()
	for i := range m.Segments {
		s := &m.Segments[i]
		if s.Damaged || s.Level == math.MaxUint8 || !limits.allow(s) {
			continue
		}
		w, ok := cuts.MergedInto(s, c.o.Hosts)
		if before := m.Merged[s.Name]; ok && w.Passed > 0 && (before.Rules != w.Rules || before.Passed < w.Passed) {
			return rewriteJob(s, "retention rules"), true
		}
	}
	return segment.Job{}, false
}

// reclaimShare is the part of a segment, as a divisor, that lies below low-water marks when it
// is rewritten for that alone. Much less would make each drop of a shard cost the
// bytes of all others.
const reclaimShare = 4

// planReclaim returns the job that frees most of what dropped, replaced and repaired
// replicas hold.
func (c *Compactor) planReclaim(m *manifest.Manifest, limits *jobLimits) (segment.Job, bool) {
	v := c.o.Files.Current()
	if len(v.Suppressed) == 0 && !slices.ContainsFunc(v.LowWater, func(f manifest.LowWater) bool { return f.Number > 0 }) {
		return segment.Job{}, false
	}
	damaged := map[string]bool{}
	for i := range m.Segments {
		if s := &m.Segments[i]; s.Damaged {
			damaged[s.Name] = true
		}
	}
	var most int64
	var chosen *segment.Meta
	for _, r := range v.Segments {
		m := r.Meta()
		if damaged[m.Name] || m.Level == math.MaxUint8 || !limits.allow(m) {
			continue
		}
		if below := v.HiddenBytes(r); below > most && below*reclaimShare >= m.Bytes {
			most, chosen = below, m
		}
	}
	if chosen == nil {
		return segment.Job{}, false
	}
	return rewriteJob(chosen, "reclaim"), true
}

// PurgeDeleted makes the next compactions work all present tombstones into the segments, however
// young they are.
func (c *Compactor) PurgeDeleted() {
	c.purgeThrough.Store(c.o.Files.TombstoneLast())
}
