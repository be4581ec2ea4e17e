package compact

import (
	"math"

	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// planThin returns the job that thins a segment which a cut has passed since it was written. It waits until nothing else has
// samples of the time: what is thinned is never put together with other samples of the same hour.
func (c *Compactor) planThin(m *manifest.Manifest, limits *jobLimits) (segment.Job, bool) {
	cuts := c.o.Thin()
	for i := range m.Segments {
		s := &m.Segments[i]
		if s.Damaged || s.Level == math.MaxUint8 || !keepsDays(s.Partition) || !limits.allow(s) {
			continue
		}
		w, ok := cuts.MergedInto(s, c.o.Hosts)
		before := m.Thinned[s.Name]
		if !ok || w.Passed == 0 || before.Rules == w.Rules && before.Passed >= w.Passed || !alone(m.Segments, []segment.Meta{*s}) {
			continue
		}
		job := rewriteJob(s, "thin")
		job.Rollups = true
		return job, true
	}
	return segment.Job{}, false
}

// keepsDays reports whether files of a partition have rollups by day.
func keepsDays(p segment.Partition) bool { return p.EndMs-p.StartMs >= segment.DayMs }

// thinCuts returns the cuts that a job's output is thinned by, if there is reason to; nil: it is not. The version has all
// samples and deletes from before the cuts.
func thinCuts(job *segment.Job, v *manifest.Version, cuts *retention.Snapshot) *retention.Snapshot {
	if !job.Rollups || !keepsDays(job.Partition) {
		return nil
	}
	metas := make([]segment.Meta, 0, len(v.Segments)+len(v.Missing))
	for _, r := range v.Segments {
		metas = append(metas, *r.Meta())
	}
	for i := range v.Missing { // they count, as they do for planThin: else it would plan the same job again and again
		metas = append(metas, v.Missing[i].Meta)
	}
	if !alone(metas, job.Inputs) {
		return nil
	}
	for _, table := range cuts.Rules {
		if table.Most() > job.Partition.StartMs {
			return cuts
		}
	}
	return nil
}

// alone reports whether no segment but the inputs themselves may have samples of the series and times of some inputs.
func alone(segments, inputs []segment.Meta) bool {
	for i := range segments {
		s, isInput, overlaps := &segments[i], false, false
		for j := range inputs {
			in := &inputs[j]
			isInput = isInput || in.Name == s.Name
			overlaps = overlaps || s.Overlaps(in.Partition) && s.ShardLow <= in.ShardHigh && in.ShardLow <= s.ShardHigh
		}
		if overlaps && !isInput {
			return false
		}
	}
	return true
}
