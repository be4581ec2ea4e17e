package read

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/index"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Shard is what reads ask of a shard.
type Shard interface {
	// Hosted reports whether there is a replica of the shard here.
	Hosted() bool
	// Cut returns the time before which the samples of all series are gone, and CutOf that
	// of one series.
	Cut() int64
	CutOf(id uint32) (int64, error)
	// ThinCutOf returns the start of a day before which of each hour of a series the last sample is kept, beside rollups of all.
	ThinCutOf(id uint32) (int64, error)
	// Snapshot copies the hot pages of a series. It returns the number of the shard's replica, and
	// whether the sealed pages of the series in generations from oldest on are in order of time.
	Snapshot(id, oldest uint32, hot *page.Hot) (replica uint64, ordered bool)
	// Heads sets what the heads of series know, and returns the number of the shard's replica.
	Heads(refs []series.Ref, heads []Head) (replica uint64)
}

// Head is the newest sample of a series as its head has it. Known: there is nothing
// newer that the head does not know of, among what its shard knows.
type Head struct {
	TimeMs int64
	Number series.Number
	Known  bool
}

// Options configure a Source.
type Options struct {
	Gate   *Gate
	Files  *manifest.Store
	Pages  *pagelog.Log
	Index  *index.Index
	Shards []Shard
	// GenerationAtOpen is the last generation of the page log that heads know nothing of, since it
	// had pages when the folder was opened; 0: none had.
	GenerationAtOpen uint32
	Prefetch         bool        // scans ask for what they read even if memory holds it
	Corrupt          func(error) // called for damage
}

// Source answers questions about the series and samples of all shards. All methods may be called
// from many goroutines.
type Source struct {
	o      Options
	Spawn  func(func()) // begins a helper of a read; tests have their own
	memory pressure
	idle   sync.Pool // of *readerMemory, of readers that have left
	locals sync.Pool // of *[]uint32, of selections that have ended

	scans, samples, rollups atomic.Int64
	decoded                 struct{ samples, bytes atomic.Int64 }
}

// The engine's source is that of a node's scans.
var _ scan.Source = (*Source)(nil)

// NewSource returns the source of what the options have.
func NewSource(o Options) *Source {
	return &Source{o: o, Spawn: func(help func()) { go help() }}
}

// Stats are a Source's counters.
type Stats struct {
	Scans, ScannedSamples int64
	ScannedRollups        int64 // hours and days of a series of which a rollup or digest was read, and no sample

	DecodedSamples, DecodedBytes int64 // of blocks of segments and of pages, by readers that have ended
}

// Plus returns the sums of the counters of two.
func (s Stats) Plus(o Stats) Stats {
	return Stats{
		s.Scans + o.Scans, s.ScannedSamples + o.ScannedSamples, s.ScannedRollups + o.ScannedRollups,
		s.DecodedSamples + o.DecodedSamples, s.DecodedBytes + o.DecodedBytes,
	}
}

// Stats returns the present figures.
func (s *Source) Stats() Stats {
	return Stats{
		Scans: s.scans.Load(), ScannedSamples: s.samples.Load(), ScannedRollups: s.rollups.Load(),
		DecodedSamples: s.decoded.samples.Load(), DecodedBytes: s.decoded.bytes.Load(),
	}
}

// Lacks returns the error of a range of a shard that a segment which is missing in a
// version may have samples in; nil: there is none.
func (s *Source) Lacks(v *manifest.Version, shard uint16, within segment.TimeRange) error {
	within.FromMs = max(within.FromMs, s.o.Shards[shard].Cut())
	return v.Lacks(shard, within)
}

// hosted returns a selector that leaves out the shards that were dropped.
func (s *Source) hosted(selector *scan.Selector) *scan.Selector {
	dropped := slices.ContainsFunc(s.o.Shards, func(shard Shard) bool { return !shard.Hosted() })
	if !dropped {
		return selector
	}
	narrowed := *selector
	narrowed.Shards = []uint16{}
	for i, shard := range s.o.Shards {
		if selector.Shards == nil || slices.Contains(selector.Shards, uint16(i)) {
			if shard.Hosted() {
				narrowed.Shards = append(narrowed.Shards, uint16(i))
			}
		}
	}
	return &narrowed
}

// takeMemory returns what a reader has left, or none.
func (s *Source) takeMemory() *readerMemory {
	if m, ok := s.idle.Get().(*readerMemory); ok {
		return m
	}
	return &readerMemory{}
}

// keepMemory takes the memory of a reader that is done with it.
func (s *Source) keepMemory(m *readerMemory) {
	if m.bytes() <= readerBytesKept {
		s.idle.Put(m)
	}
}

// localsKept bounds the local ids that a selection leaves room for to the next.
const localsKept = 1 << 16

// takeLocals returns an empty list for local ids. It is given back by keepLocals.
func (s *Source) takeLocals() *[]uint32 {
	if list, ok := s.locals.Get().(*[]uint32); ok {
		return list
	}
	return new([]uint32)
}

// keepLocals takes a list, with the memory that it has by now.
func (s *Source) keepLocals(list *[]uint32, grown []uint32) {
	if cap(grown) <= localsKept {
		*list = grown[:0]
		s.locals.Put(list)
	}
}

func (s *Source) enter(ctx context.Context) (within context.Context, leave func(), err error) {
	return s.o.Gate.Enter(ctx)
}
