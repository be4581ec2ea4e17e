package compact

import (
	"cmp"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/retention"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// planThin returns the job that thins a segment which a cut has passed since it was written, together with all that may have samples of
// its series and times: what is thinned is never put together with other samples of the same hour later.
func (c *Compactor) planThin(m *manifest.Manifest, limits *jobLimits) (segment.Job, bool) {
	cuts := c.o.Thin()
	seen := map[string]bool{} // with others, in a job that cannot be done
	for i := range m.Segments {
		s := &m.Segments[i]
		if seen[s.Name] || !limits.allow(s) {
			continue
		}
		w, ok := cuts.MergedInto(s, c.o.Hosts)
		before := m.Thinned[s.Name]
		if !ok || w.Passed == 0 || before.Rules == w.Rules && before.Passed >= w.Passed {
			continue
		}
		inputs := together(m.Segments, s)
		if job, ok := thinJob(inputs); ok && job.Bytes() <= limits.freeingBytesMax {
			return job, true
		}
		for j := range inputs {
			seen[inputs[j].Name] = true
		}
	}
	return segment.Job{}, false
}

// thinJob returns the job that makes one run of segments, if they can be: one of them has a partition that covers those of all.
func thinJob(inputs []segment.Meta) (segment.Job, bool) {
	slices.SortFunc(inputs, func(a, b segment.Meta) int {
		return cmp.Or(cmp.Compare(a.SequenceLow, b.SequenceLow), cmp.Compare(a.SequenceHigh, b.SequenceHigh), cmp.Compare(a.StartMs, b.StartMs), cmp.Compare(a.ShardLow, b.ShardLow))
	})
	job := segment.Job{Inputs: inputs, Partition: inputs[0].Partition, Rollups: true, Reason: "thin"}
	for i := range inputs {
		s := &inputs[i]
		if s.Damaged || s.Level == math.MaxUint8 {
			return segment.Job{}, false
		}
		if s.Covers(job.Partition) {
			job.Partition = s.Partition
		}
		job.Level, job.BlockSamples, job.Dense = max(job.Level, s.Level+1), max(job.BlockSamples, s.BlockSamples), job.Dense || s.Dense
	}
	covered := !slices.ContainsFunc(inputs, func(s segment.Meta) bool { return !job.Partition.Covers(s.Partition) })
	return job, covered && job.Partition.HasDays() && len(inputs) <= segment.InputsMax
}

// together returns the segments that may have samples of the series and times of one, or of one of these.
func together(segments []segment.Meta, of *segment.Meta) []segment.Meta {
	found, isFound := []segment.Meta{*of}, map[string]bool{of.Name: true}
	for at := 0; at < len(found); at++ {
		for i := range segments {
			if s := &segments[i]; !isFound[s.Name] && share(s, &found[at]) {
				isFound[s.Name] = true
				found = append(found, *s)
			}
		}
	}
	return found
}

// share reports whether two segments may have samples of one series and time.
func share(a, b *segment.Meta) bool {
	return a.Overlaps(b.Partition) && a.ShardLow <= b.ShardHigh && b.ShardLow <= a.ShardHigh
}

// thinCuts returns the cuts that a job's output is thinned by, if there is reason to; nil: it is not. The version has all
// samples and deletes from before the cuts.
func thinCuts(job *segment.Job, v *manifest.Version, cuts *retention.Snapshot) *retention.Snapshot {
	passes := func(table *retention.Table) bool { return table.Most() > job.Partition.StartMs }
	if !job.Rollups || !job.Partition.HasDays() || !slices.ContainsFunc(cuts.Rules, passes) {
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
	return cuts
}

// alone reports whether no segment but the inputs themselves may have samples of the series and times of some inputs.
func alone(segments, inputs []segment.Meta) bool {
	for i := range segments {
		s, isInput, overlaps := &segments[i], false, false
		for j := range inputs {
			in := &inputs[j]
			isInput = isInput || in.Name == s.Name
			overlaps = overlaps || share(s, in)
		}
		if overlaps && !isInput {
			return false
		}
	}
	return true
}
