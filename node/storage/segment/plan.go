package segment

import (
	"cmp"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// Settings steer compaction. The zero value of a field means the default.
type Settings struct {
	// SpanMax is the widest partition that is made. Retention drops whole
	// partitions, so it should be a small part of the retention: see SpanMaxOf. Default:
	// SpanMonth.
	SpanMax Span
	// FanIn is the number of runs of similar size that makes a merge worth
	// while. Default 4.
	FanIn int
	// RunsMax is the number of runs in a partition above which a merge is made
	// whatever it costs, as every run costs each query. Default 12.
	RunsMax int
	// CloseDelayMs is how long after its end a partition counts as closed: late
	// samples are expected until then. Default 15 minutes.
	CloseDelayMs int64
	// DenseAfterMs is how long after its end a day or month is encoded for size,
	// in blocks of DenseBlockSamples; days are joined to months then. Default
	// 7 days.
	DenseAfterMs int64
	// RollupsFrom is the narrowest partition that gets rollups. In the narrower
	// ones they would cost more than they save. Default: SpanDay.
	RollupsFrom Span
	// JobBytesMax bounds the inputs of a job: it needs about as much room beside them, and
	// takes as long. Partitions with more are not joined. Default: 16 GiB.
	JobBytesMax int64
	// Avoid reports whether nothing is to be made of a partition now; nil: of none.
	Avoid func(Partition) bool
}

// SpanMaxOf returns the widest span that is at most a tenth of how long samples are kept; 0: for
// ever.
func SpanMaxOf(keepMs int64) Span {
	switch {
	case keepMs <= 0 || keepMs >= 10*31*DayMs:
		return SpanMonth
	case keepMs >= 10*DayMs:
		return SpanDay
	}
	return SpanTwoHours
}

// JobBytesMax is the default of Settings.JobBytesMax.
const JobBytesMax = 16 << 30

// DenseBlockSamples is the size of a block in a partition encoded for size.
const DenseBlockSamples = codec.BlockSamplesDense

func (s Settings) withDefaults() Settings {
	s.FanIn = max(2, cmp.Or(s.FanIn, 4))
	s.RunsMax = max(s.FanIn, cmp.Or(s.RunsMax, 12))
	s.CloseDelayMs = cmp.Or(s.CloseDelayMs, HourMs/4)
	s.DenseAfterMs = cmp.Or(s.DenseAfterMs, 7*DayMs)
	s.SpanMax = min(cmp.Or(s.SpanMax, SpanMonth), SpanMonth)
	s.RollupsFrom = cmp.Or(s.RollupsFrom, SpanDay)
	s.JobBytesMax = cmp.Or(s.JobBytesMax, JobBytesMax)
	return s
}

// Job is one compaction: Merge of the inputs with these options.
type Job struct {
	Inputs []Meta // from the earliest sequences to the latest
	Partition
	Level        uint8
	BlockSamples int
	Dense        bool
	Rollups      bool
	Reason       string // for logs and metrics
}

// Bytes returns the size of the inputs.
func (j *Job) Bytes() (bytes int64) {
	for i := range j.Inputs {
		bytes += j.Inputs[i].Bytes
	}
	return bytes
}

// run is what one flush or merge made for a partition: one or more files with
// disjoint shards and one range of sequences.
type run struct {
	files []Meta
	span  Span
	bytes int64
}

func (r *run) low() uint64          { return r.files[0].SequenceLow }
func (r *run) high() uint64         { return r.files[0].SequenceHigh }
func (r *run) partition() Partition { return r.files[0].Partition }
func (r *run) damaged() bool {
	return slices.ContainsFunc(r.files, func(m Meta) bool { return m.Damaged })
}

// planner is one call of PlanCompaction.
type planner struct {
	Settings
	nowMs int64
	runs  []run // by sequence
}

// PlanCompaction returns the next job for the live segments of a node, or false
// when there is nothing to do. It is a pure function of its arguments: after the
// job is done, or has been given up, it is asked again with what is live then.
// One job runs at a time.
//
// The rules:
//
//  1. Tidy: among the runs of one partition, in order of sequence, neighbours
//     are merged if there are FanIn or more and together they are at least twice
//     as large as the largest of them. So whenever a sample is written again, the
//     run that it is in has doubled, and a sample is rewritten at most log2(size
//     of the partition / size of a flush) times; a small late run does not make a
//     large one be written again. With more than RunsMax runs the cheapest FanIn
//     neighbours are merged all the same.
//  2. Close: once a partition of two hours is closed its runs become one, if
//     that makes the largest of them grow by a quarter.
//  3. Widen: once a day is closed all narrower runs in it become one run of it:
//     the first time, and then whenever there are FanIn of them. The same goes
//     for a month, once it is old enough to be encoded for size.
//     Runs of the wide partition itself that lie between the narrower ones in
//     sequence, from flushes of much backfill, are taken along.
//  4. Densify: a run that nothing will widen is encoded for size when it is old. So are
//     those of a partition that has too many bytes to be joined.
//
// So samples that come in time are written by their flush, by closing, by the day
// and by the month, once each, and by tidying log2(flushes of two hours) times at
// most where flushes have one size.
//
// A damaged run is left alone, and nothing is merged across it, in sequence, where
// it overlaps. Every job is checked against the rule in the package's description
// and not proposed if it breaks it: the ranges of overlapping runs stay disjoint.
// Every job lowers the number of runs, widens one or makes one dense, so that a
// fixpoint is reached.
func PlanCompaction(metas []Meta, nowMs int64, settings Settings) (Job, bool) {
	p := planner{Settings: settings.withDefaults(), nowMs: nowMs, runs: runsOf(metas)}
	for _, rule := range [...]func() (Job, bool){p.widen, p.tidyAndClose, p.densify} {
		if job, ok := rule(); ok {
			return job, true
		}
	}
	return Job{}, false
}

// runsOf groups segments into runs, by sequence.
func runsOf(metas []Meta) []run {
	sorted := slices.Clone(metas)
	slices.SortFunc(sorted, func(a, b Meta) int {
		return cmp.Or(cmp.Compare(a.SequenceLow, b.SequenceLow), cmp.Compare(a.SequenceHigh, b.SequenceHigh),
			cmp.Compare(a.StartMs, b.StartMs), cmp.Compare(a.EndMs, b.EndMs), cmp.Compare(a.ShardLow, b.ShardLow))
	})
	var runs []run
	for _, m := range sorted {
		n := len(runs)
		if n == 0 || runs[n-1].partition() != m.Partition || runs[n-1].low() != m.SequenceLow || runs[n-1].high() != m.SequenceHigh {
			runs = append(runs, run{span: spanOf(m.Partition)})
			n++
		}
		runs[n-1].files = append(runs[n-1].files, m)
		runs[n-1].bytes += m.Bytes
	}
	return runs
}

// spanNone is for partitions that this package does not make.
const spanNone = SpanMonth + 1

func spanOf(p Partition) Span {
	for _, span := range [...]Span{SpanTwoHours, SpanDay, SpanMonth} {
		if PartitionOf(p.StartMs, span) == p {
			return span
		}
	}
	return spanNone
}

func (p *planner) closed(partition Partition) bool {
	return p.nowMs-p.CloseDelayMs >= partition.EndMs
}

func (p *planner) old(partition Partition) bool {
	return p.nowMs-p.DenseAfterMs >= partition.EndMs
}

// within returns the runs of spans [from, to] that lie in a partition, by sequence.
func (p *planner) within(partition Partition, from, to Span) (runs []*run) {
	for i := range p.runs {
		if r := &p.runs[i]; r.span >= from && r.span <= to && partition.Covers(r.partition()) {
			runs = append(runs, r)
		}
	}
	return runs
}

// partitions returns the partitions of a span that have runs of spans [from, to],
// the latest first.
func (p *planner) partitions(span, from, to Span) (partitions []Partition) {
	for i := range p.runs {
		if r := &p.runs[i]; r.span >= from && r.span <= to {
			partitions = append(partitions, PartitionOf(r.partition().StartMs, span))
		}
	}
	slices.SortFunc(partitions, func(a, b Partition) int { return cmp.Compare(b.StartMs, a.StartMs) })
	return slices.Compact(partitions)
}

// job makes a job of runs for a partition, if that is allowed.
func (p *planner) job(runs []*run, partition Partition, reason string) (Job, bool) {
	j := Job{Partition: partition, Reason: reason}
	low, high := runs[0].low(), runs[0].high()
	for _, r := range runs {
		if r.damaged() {
			return Job{}, false
		}
		low, high = min(low, r.low()), max(high, r.high())
		j.Inputs = append(j.Inputs, r.files...)
	}
	if len(j.Inputs) > InputsMax || j.Bytes() > p.JobBytesMax || !p.allowed(runs, partition, low, high) ||
		p.Avoid != nil && p.Avoid(partition) {
		return Job{}, false
	}
	for i := range j.Inputs {
		j.Level = max(j.Level, j.Inputs[i].Level)
	}
	if j.Level < 255 {
		j.Level++
	}
	span := spanOf(partition)
	j.Rollups = span >= p.RollupsFrom
	if span > SpanTwoHours && p.old(partition) {
		j.Dense, j.BlockSamples = true, DenseBlockSamples
	}
	return j, true
}

// allowed reports whether no other run that overlaps the partition lies within the
// range of sequences.
func (p *planner) allowed(runs []*run, partition Partition, low, high uint64) bool {
	for i := range p.runs {
		r := &p.runs[i]
		if r.partition().Overlaps(partition) && r.low() <= high && low <= r.high() && !slices.Contains(runs, r) {
			return false
		}
	}
	return true
}

// Expired returns the segments that lie wholly before the cut, whose samples are
// all older than cutMs.
func Expired(metas []Meta, cutMs int64) (expired []Meta) {
	for _, m := range metas {
		if m.EndMs <= cutMs {
			expired = append(expired, m)
		}
	}
	return expired
}
