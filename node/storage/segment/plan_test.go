package segment

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// simFile is a segment in a simulation: its Meta, and for each two hours the
// sequences of the flushes that wrote there, in the order in which it has them.
type simFile struct {
	Meta
	cells map[int64][]uint64
}

// sim is a node's set of segments, with jobs carried out on their Metas alone.
type sim struct {
	t        fatal
	settings Settings
	files    []*simFile
	sequence uint64
	nowMs    int64

	checkLast bool // check the rules at the end only
	jobs      int

	bytesFlushed, bytesMerged int64
}

// flush adds a segment of level 0 for each partition that the times lie in.
func (s *sim) flush(bytes int64, times ...int64) { s.flushSpan(SpanTwoHours, bytes, times...) }

func (s *sim) flushSpan(span Span, bytes int64, times ...int64) {
	s.sequence++
	for _, at := range times {
		p := PartitionOf(at, span)
		m := Meta{Partition: p, SequenceLow: s.sequence, SequenceHigh: s.sequence, Bytes: bytes, ShardHigh: 9}
		m.Name = FileName(&m)
		if !slices.ContainsFunc(s.files, func(f *simFile) bool { return f.Name == m.Name }) {
			cells := map[int64][]uint64{}
			step := 2 * HourMs
			if span == SpanMonth {
				step = 10 * HourMs // some of the cells will do
			}
			for cell := p.StartMs; cell < p.EndMs; cell += step {
				cells[cell] = []uint64{s.sequence}
			}
			s.files = append(s.files, &simFile{m, cells})
			s.bytesFlushed += bytes
		}
	}
}

func (s *sim) metas() (metas []Meta) {
	for _, f := range s.files {
		metas = append(metas, f.Meta)
	}
	return metas
}

// settle carries out jobs until there are none.
func (s *sim) settle() {
	s.t.Helper()
	for range 3*len(s.files) + 3 {
		job, ok := PlanCompaction(s.metas(), s.nowMs, s.settings)
		if !ok {
			return
		}
		s.do(&job)
	}
	s.t.Fatalf("no fixpoint: %v", s.names())
}

func (s *sim) names() (names []string) {
	for _, f := range s.files {
		names = append(names, fmt.Sprintf("%s:%d", f.Name, f.Bytes))
	}
	return names
}

func (s *sim) do(job *Job) {
	s.t.Helper()
	s.jobs++
	s.bytesMerged += job.Bytes()
	if bound := cmp.Or(s.settings.JobBytesMax, JobBytesMax); job.Bytes() > bound {
		s.t.Fatalf("a job of %d bytes, %d are allowed: %+v", job.Bytes(), bound, job)
	}
	inputs := map[string]bool{}
	out := Meta{Partition: job.Partition, Level: job.Level, Dense: job.Dense, SequenceLow: job.Inputs[0].SequenceLow, ShardHigh: 9}
	cells := map[int64][]uint64{}
	for _, in := range job.Inputs {
		if in.Damaged {
			s.t.Fatalf("a damaged input: %+v", job)
		}
		inputs[in.Name] = true
		out.SequenceHigh = max(out.SequenceHigh, in.SequenceHigh)
		out.SequenceLow = min(out.SequenceLow, in.SequenceLow)
		out.Bytes += in.Bytes
		f := s.files[slices.IndexFunc(s.files, func(f *simFile) bool { return f.Name == in.Name })]
		if f.ShardLow == 0 { // the other parts of a run have the same cells
			for cell, sequences := range f.cells {
				cells[cell] = append(cells[cell], sequences...)
			}
		}
	}
	s.files = slices.DeleteFunc(s.files, func(f *simFile) bool { return inputs[f.Name] })
	for _, part := range splitSim(out) {
		part.Name = FileName(&part)
		if slices.ContainsFunc(s.files, func(f *simFile) bool { return f.Name == part.Name }) {
			s.t.Fatalf("the name %s is in use; job %+v", part.Name, job)
		}
		s.files = append(s.files, &simFile{part, cells})
	}
	if !s.checkLast {
		s.check()
	}
}

// splitSim splits large outputs at a shard border.
func splitSim(m Meta) []Meta {
	if m.Bytes < 1<<24 {
		return []Meta{m}
	}
	a, b := m, m
	a.ShardHigh, b.ShardLow = 4, 5
	a.Bytes, b.Bytes = m.Bytes/2, m.Bytes-m.Bytes/2
	return []Meta{a, b}
}

// check holds every file against the rules: order by sequence is order of writes.
func (s *sim) check() {
	s.t.Helper()
	for i, a := range s.files {
		for _, b := range s.files[:i] {
			sameRun := a.Partition == b.Partition && a.SequenceLow == b.SequenceLow && a.SequenceHigh == b.SequenceHigh
			if sameRun && (a.ShardLow > b.ShardHigh || b.ShardLow > a.ShardHigh) {
				continue
			}
			if a.Overlaps(b.Partition) && a.SequenceLow <= b.SequenceHigh && b.SequenceLow <= a.SequenceHigh {
				s.t.Fatalf("%s and %s overlap in time and sequence", a.Name, b.Name)
			}
		}
	}
	sorted := slices.Clone(s.files)
	slices.SortFunc(sorted, func(a, b *simFile) int { return cmp.Compare(a.SequenceLow, b.SequenceLow) })
	last := map[int64]uint64{}
	for _, f := range sorted {
		if f.ShardLow > 0 {
			continue
		}
		for cell, sequences := range f.cells {
			for _, q := range sequences {
				if q <= last[cell] {
					s.t.Fatalf("%s: flush %d comes after %d", f.Name, q, last[cell])
				}
				last[cell] = q
			}
		}
	}
}

func TestPlanKeepsOrderAndEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &sim{t: t, nowMs: dayStart, settings: Settings{
			SpanMax: rapid.SampledFrom([]Span{0, SpanTwoHours, SpanDay, SpanMonth}).Draw(t, "span"),
			FanIn:   rapid.SampledFrom([]int{0, 2, 6}).Draw(t, "fan"), RunsMax: rapid.SampledFrom([]int{0, 3}).Draw(t, "runs"),
			JobBytesMax: rapid.SampledFrom([]int64{0, 0, 1 << 10, 1 << 20, 1 << 27}).Draw(t, "bytes"),
		}}
		for range rapid.IntRange(1, 60).Draw(t, "flushes") {
			var times []int64
			for range rapid.IntRange(1, 3).Draw(t, "partitions") {
				backMs := rapid.SampledFrom([]int64{0, 0, 0, 2 * HourMs, 30 * HourMs, 40 * DayMs}).Draw(t, "back")
				times = append(times, s.nowMs-backMs)
			}
			span := rapid.SampledFrom([]Span{SpanTwoHours, SpanTwoHours, SpanTwoHours, SpanDay, SpanMonth}).Draw(t, "wide")
			s.flushSpan(span, int64(1)<<rapid.IntRange(4, 26).Draw(t, "size"), times...)
			if rapid.IntRange(0, 9).Draw(t, "damage") == 0 {
				s.files[rapid.IntRange(0, len(s.files)-1).Draw(t, "damaged")].Damaged = true
			}
			if rapid.Bool().Draw(t, "settle") {
				s.settle()
			}
			s.nowMs += rapid.SampledFrom([]int64{HourMs / 12, HourMs, 7 * HourMs, 9 * DayMs}).Draw(t, "wait")
		}
		s.settle()
	})
}

// Twenty days, with the end of a month among them, of flushes every quarter of an hour, some with late samples: the
// cost of writing and the number of files stay within what the description says.
func TestPlanCost(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := &sim{t: t, nowMs: dayStart, settings: Settings{FanIn: 8, DenseAfterMs: DayMs}, checkLast: true}
	const flushBytes, lateBytes = 1 << 20, 1 << 10
	for range 20 * 24 * 4 {
		s.flush(flushBytes, s.nowMs)
		if random.IntN(10) == 0 {
			s.sequence++
			s.flush(lateBytes, s.nowMs-random.Int64N(60*DayMs))
		}
		s.settle()
		s.nowMs += HourMs / 4
	}
	s.check()
	writes := float64(s.bytesFlushed+s.bytesMerged) / float64(s.bytesFlushed)
	t.Logf("%d jobs; every byte was written %.2f times; %d files for 20 days", s.jobs, writes, len(s.files))
	if writes > 4.2 {
		t.Errorf("every byte was written %.2f times", writes)
	}
	for i := range s.files {
		overlapping := 0
		for _, f := range s.files {
			if f.Has(s.files[i].StartMs) && f.ShardLow == 0 {
				overlapping++
			}
		}
		if overlapping > 12+8 {
			t.Errorf("%d runs at one time", overlapping)
		}
	}
}

// A trickle of late samples into a month does not make the month be rewritten.
func TestPlanLateTrickle(t *testing.T) {
	month := testPartition(SpanMonth)
	s := &sim{t: t, nowMs: month.EndMs + 10*DayMs} // the month is old
	for at := month.StartMs; at < month.EndMs; at += 2 * HourMs {
		s.flush(1<<24, at)
	}
	s.settle()
	base := s.bytesFlushed
	before := s.bytesMerged
	const lateBytes = 1000
	for i := range int64(1000) {
		s.flush(lateBytes, month.StartMs+i*HourMs%(month.EndMs-month.StartMs))
		s.settle()
	}
	late := s.bytesMerged - before
	bound := int64(1000*lateBytes) * int64(bits.Len(1000)+1)
	t.Logf("a month of %d bytes; 1000 late flushes of %d cost %d bytes of merging; %d files", base, lateBytes, late, len(s.files))
	if late > bound {
		t.Errorf("%d bytes merged for %d late ones, more than %d", late, 1000*lateBytes, bound)
	}
	if len(s.files) > 20 {
		t.Errorf("%d files", len(s.files))
	}
}

// Old days become dense when they are not joined further, and only once.
func TestPlanDensify(t *testing.T) {
	s := &sim{t: t, nowMs: dayStart + 2*DayMs, settings: Settings{SpanMax: SpanDay}}
	s.flush(1000, dayStart)
	s.settle()
	if len(s.files) != 1 || s.files[0].Dense || spanOf(s.files[0].Partition) != SpanDay {
		t.Fatalf("%v", s.names())
	}
	s.nowMs += 30 * DayMs
	s.settle()
	if len(s.files) != 1 || !s.files[0].Dense {
		t.Fatalf("%v", s.names())
	}
}

// Days that are too large together to be joined to a month are written for size one by one, and
// other partitions do not wait for one that is left alone.
func TestPlanBounds(t *testing.T) {
	month := testPartition(SpanMonth)
	s := &sim{t: t, nowMs: month.EndMs + 60*DayMs, settings: Settings{JobBytesMax: 15_000}}
	for at := month.StartMs; at < month.EndMs; at += DayMs {
		s.flushSpan(SpanDay, 1000, at)
	}
	later := PartitionOf(month.EndMs, SpanDay)
	s.flushSpan(SpanDay, 1000, later.StartMs)
	s.settings.Avoid = func(p Partition) bool { return p == testPartition(SpanDay) }
	s.settle()
	for _, f := range s.files {
		avoided := f.Partition == testPartition(SpanDay)
		if wide := spanOf(f.Partition) == SpanMonth; wide != f.Covers(later) || f.Dense == avoided {
			t.Errorf("%s, dense %v", f.Name, f.Dense)
		}
	}
	s.settings = Settings{}
	s.settle()
	if len(s.files) != 2 {
		t.Errorf("without a bound there are %v", s.names())
	}
}

func TestExpired(t *testing.T) {
	day := testPartition(SpanDay)
	metas := []Meta{{Name: "a", Partition: day}, {Name: "b", Partition: PartitionOf(day.EndMs, SpanDay)}}
	for _, c := range []struct {
		cutMs int64
		want  int
	}{{day.StartMs, 0}, {day.EndMs - 1, 0}, {day.EndMs, 1}, {day.EndMs + DayMs, 2}} {
		if got := Expired(metas, c.cutMs); len(got) != c.want {
			t.Errorf("cut %d: %v", c.cutMs, got)
		}
	}
}
