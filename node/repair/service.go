// Package repair keeps the copies of a shard equal: it compares digests of closed ranges of
// time, and fetches from another node what is damaged here or differs from a majority. It
// depends on neither the log nor how a group agrees; what it brings replaces samples in the
// engine's files and never becomes an entry.
package repair

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// Copies asks other nodes about their copies of shards.
type Copies interface {
	// Digest returns what the node's DigestRange returns.
	Digest(ctx context.Context, node string, shard uint16, fromMs, toMs int64) (transfer.RangeDigest, error)
	// OpenRange returns what the node's GiveRange writes.
	OpenRange(ctx context.Context, node string, shard uint16, fromMs, toMs int64, indexMin uint64) (io.ReadCloser, error)
	// Repair marks the node's copy of a range as a bad one, as its Suspect does.
	Repair(ctx context.Context, node string, shard uint16, fromMs, toMs int64) error
}

// Groups is what a Service asks about the groups of its node.
type Groups interface {
	// Status returns a group's status. Errors: replica.ErrNoGroup, and why it is unknown.
	Status(shard uint16) (replica.GroupStatus, error)
	// Leads reports whether this node leads the shard; it may be a moment old.
	Leads(shard uint16) bool
	// AwaitApplied waits until the shard's log is applied up to index.
	AwaitApplied(ctx context.Context, shard uint16, index uint64) error
	// TransferLeader starts to hand the shard over; an empty name stands for the full voter
	// that has most of its log.
	TransferLeader(shard uint16, toNode string) error
}

// Engine is what a Service needs of the storage engine.
type Engine interface {
	Shards() int
	Damages() []manifest.Damage
	DigestRanges(shard uint16, beforeMs int64) []segment.TimeRange
	RangeDigest(ctx context.Context, shard uint16, fromMs, toMs int64, pace func(samples int) error) (transfer.RangeDigest, error)
	UnchangedSince(shard uint16, toMs int64) (since, applied uint64)
	ExportRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64, to io.Writer) error
	RepairRange(ctx context.Context, shard uint16, fromMs, toMs int64, from transfer.RepairSource) (transfer.Repair, error)
}

// Options configure a Service.
type Options struct {
	Node   string // the id of this node
	Engine Engine
	Groups Groups
	// Copies reaches the other nodes. Nil: damage is reported and not mended.
	Copies Copies
	// DigestInterval is the rest between two comparisons of all copies; 0: none are made.
	DigestInterval time.Duration
	Clock          func() time.Time
	Logger         *slog.Logger
}

// Service compares and mends the copies of one node's shards. All methods may be called
// from many goroutines.
type Service struct {
	options  Options
	reading  reading
	repairer repairer
	checks   checker
}

// New returns a Service that does nothing by itself before Run.
func New(o Options) *Service {
	s := &Service{options: o, reading: newReading()}
	s.repairer.init()
	return s
}

// Run compares and mends until ctx ends.
func (s *Service) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { s.mendRanges(ctx) })
	if s.options.DigestInterval > 0 {
		running.Go(func() { s.compareCopies(ctx) })
	}
	running.Wait()
}

// Problems lists what a person should know of damage and of copies that differ, the worst
// first.
func (s *Service) Problems() []string {
	return append(s.repairer.problems(s.options.Engine.Damages()), s.checks.problems()...)
}

// Figures are counts since the start, and what there is now.
type Figures struct {
	RangesCompared, Passes, SamplesRead     int64
	Mismatches, Undecided, Unreadable       int64
	Conflicts                               int64 // ranges that differ though all checksums hold, now
	Damages                                 int64 // parts of segments that cannot be read, now
	RepairsPending                          int64 // now
	Repairs, RepairsFailed, SamplesRepaired int64
}

// Figures returns the figures.
func (s *Service) Figures() Figures {
	c, r := &s.checks, &s.repairer
	return Figures{
		RangesCompared: c.ranges.Load(), Passes: c.passes.Load(), SamplesRead: c.samples.Load(),
		Mismatches: c.mismatches.Load(), Undecided: c.undecided.Load(), Unreadable: c.unreadable.Load(),
		Conflicts: c.conflicts.Load(), Damages: int64(len(s.options.Engine.Damages())),
		RepairsPending: r.pending.Load(), Repairs: r.repairs.Load(), RepairsFailed: r.failures.Load(), SamplesRepaired: r.samples.Load(),
	}
}

// status returns the status of a shard's group, of any number.
func (s *Service) status(shard uint16) (replica.GroupStatus, error) {
	if int(shard) >= s.options.Engine.Shards() {
		return replica.GroupStatus{}, replica.ErrNoGroup
	}
	return s.options.Groups.Status(shard)
}
