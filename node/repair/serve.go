package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// Bounds of what reading copies costs a node.
const (
	digestSamplesPerSecond = 4 << 20 // a few per cent of a core: see BenchmarkMoveShard/digest
	digestsAtOnce          = 2
	rangesAtOnce           = 2
)

// reading bounds the reading of copies: for digests here and for others, and for
// repairs elsewhere.
type reading struct {
	pace    *rate.Limiter
	digests *semaphore.Weighted
	ranges  *semaphore.Weighted
}

func newReading() reading {
	return reading{
		pace:    rate.NewLimiter(digestSamplesPerSecond, digestSamplesPerSecond),
		digests: semaphore.NewWeighted(digestsAtOnce), ranges: semaphore.NewWeighted(rangesAtOnce),
	}
}

// DigestRange reads what this node has of a shard in [fromMs, toMs], at a bounded pace.
// What it cannot read is mended from another copy. Errors: those of
// the engine's RangeDigest; series.ErrUnavailable without a full replica.
func (s *Service) DigestRange(ctx context.Context, shard uint16, fromMs, toMs int64) (transfer.RangeDigest, error) {
	if status, err := s.status(shard); err != nil || status.Role != shardmap.Full || status.Installing {
		return transfer.RangeDigest{}, errors.Join(fmt.Errorf("%w: no full copy of shard %d is here", series.ErrUnavailable, shard), err)
	}
	if err := s.reading.digests.Acquire(ctx, 1); err != nil {
		return transfer.RangeDigest{}, err
	}
	defer s.reading.digests.Release(1)
	d, err := s.options.Engine.RangeDigest(ctx, shard, fromMs, toMs, func(samples int) error {
		s.checks.samples.Add(int64(samples))
		return s.reading.pace.WaitN(ctx, min(samples, digestSamplesPerSecond))
	})
	return d, err
}

// GiveRange writes what this node has of a shard in [fromMs, toMs], for a repair
// elsewhere. For what it has not applied yet of the entries up to indexMin it waits a
// while: who asks may be the leader. Errors: those of the engine's ExportRange;
// series.ErrUnavailable without a full replica, series.ErrOverloaded while too many ranges
// are given.
func (s *Service) GiveRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64, to io.Writer) error {
	if status, err := s.status(shard); err != nil || status.Role != shardmap.Full || status.Installing {
		return errors.Join(fmt.Errorf("%w: no full copy of shard %d is here", series.ErrUnavailable, shard), err)
	}
	if err := s.awaitApplied(ctx, shard, indexMin); err != nil {
		return fmt.Errorf("%w: shard %d is not applied up to entry %d: %w", series.ErrUnavailable, shard, indexMin, err)
	}
	if !s.reading.ranges.TryAcquire(1) {
		return fmt.Errorf("%w: %d ranges are being given", series.ErrOverloaded, rangesAtOnce)
	}
	defer s.reading.ranges.Release(1)
	bounded, cancel := context.WithTimeout(ctx, rangeWait)
	defer cancel()
	return s.options.Engine.ExportRange(bounded, shard, fromMs, toMs, indexMin, to)
}

// awaitApplied waits for entries that other nodes have.
func (s *Service) awaitApplied(ctx context.Context, shard uint16, index uint64) error {
	bounded, cancel := context.WithTimeout(ctx, awaitWait)
	defer cancel()
	return s.options.Groups.AwaitApplied(bounded, shard, index)
}

// awaitWait is more than the log takes to bring what another copy has.
const awaitWait = 15 * time.Second

// rangeWait bounds the giving and the fetching of a range, which hold files and
// generations of the page log.
const rangeWait = 10 * time.Minute

// otherCopies returns the nodes of the other full voters of a group, its leader first.
func otherCopies(status *replica.GroupStatus) (names []string) {
	for _, m := range status.Configuration.Members {
		switch {
		case m.RaftID == status.RaftID || m.Role != shardmap.Full:
		case m.Node == status.Leader:
			names = append([]string{m.Node}, names...)
		default:
			names = append(names, m.Node)
		}
	}
	return names
}
