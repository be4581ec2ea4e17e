package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// shardRange is a closed range of time of a shard, in ms.
type shardRange struct {
	shard        uint16
	fromMs, toMs int64
}

func (r shardRange) String() string {
	return fmt.Sprintf("shard %d from %s to %s", r.shard, dayTime(r.fromMs), dayTime(r.toMs))
}

func dayTime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04") }

const (
	repairLook     = 200 * time.Millisecond
	repairDelayMin = time.Second
	repairDelayMax = time.Minute
	suspectsMax    = 1024
)

// repairer mends ranges that cannot be read here, or that most other copies have
// otherwise, one after the other, by what another node has.
type repairer struct {
	mu struct {
		sync.Mutex
		suspects map[shardRange]bool
		tries    map[shardRange]*repairTry // of what is not mended yet
	}
	repairs, failures, series, samples atomic.Int64
	pending                            atomic.Int64
}

// repairTry is what became of the attempts for one range.
type repairTry struct {
	next   time.Time
	delay  time.Duration
	err    error
	handed time.Time // when the shard was handed over for it; zero: never
}

func (r *repairer) init() {
	r.mu.suspects, r.mu.tries = map[shardRange]bool{}, map[shardRange]*repairTry{}
}

// Suspect notes that what this node has of a shard in [fromMs, toMs] is not what most
// other copies have: it is going to be fetched from one of them. Errors:
// series.ErrUnavailable without a full replica, series.ErrOverloaded when much waits.
func (s *Service) Suspect(shard uint16, fromMs, toMs int64) error {
	if status, err := s.status(shard); err != nil || status.Role != shardmap.Full || status.SingleVoter {
		return errors.Join(fmt.Errorf("%w: shard %d cannot be repaired here", series.ErrUnavailable, shard), err)
	}
	var targets []shardRange
	if toMs-fromMs <= repairWidthMax.Milliseconds() {
		targets = byMonth(shard, fromMs, toMs)
	} else { // what others have nothing in, and this node has something: day by day
		for _, within := range s.options.Engine.DigestRanges(shard, toMs) {
			if within.FromMs >= fromMs && within.ToMs <= toMs && within.ToMs-within.FromMs <= repairWidthMax.Milliseconds() {
				targets = append(targets, shardRange{shard, within.FromMs, within.ToMs})
			}
		}
	}
	r := &s.repairer
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.suspects)+len(targets) > suspectsMax {
		return fmt.Errorf("%w: %d ranges wait to be repaired", series.ErrOverloaded, len(r.mu.suspects))
	}
	for _, target := range targets {
		r.mu.suspects[target] = true
	}
	return nil
}

// repairWidthMax is the widest range that is repaired whether or not this node has
// anything in it.
const repairWidthMax = 31 * 24 * time.Hour

// byMonth cuts a range where months end: what can be repaired at once lies within one.
func byMonth(shard uint16, fromMs, toMs int64) (targets []shardRange) {
	for fromMs <= toMs {
		endMs := min(toMs, segment.PartitionOf(fromMs, segment.SpanMonth).EndMs-1)
		targets = append(targets, shardRange{shard, fromMs, endMs})
		fromMs = endMs + 1
	}
	return targets
}

// mendRanges mends one range after the other until ctx ends.
func (s *Service) mendRanges(ctx context.Context) {
	ticker := time.NewTicker(repairLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, target := range s.repairer.due(s.options.Engine.Damages(), time.Now()) {
			if !s.repairer.wanted(s.options.Engine.Damages(), target) {
				continue // the repair of another segment of the same day has mended it
			}
			err := s.repair(ctx, target)
			if ctx.Err() != nil {
				return
			}
			s.repairer.ended(target, err, time.Now())
		}
	}
}

// due returns the ranges to try now, and forgets what is no more.
func (r *repairer) due(damages []manifest.Damage, now time.Time) (due []shardRange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := map[shardRange]bool{}
	for target := range r.mu.suspects {
		wanted[target] = true
	}
	for i := range damages {
		wanted[shardRange{damages[i].Shard, damages[i].FromMs, damages[i].ToMs}] = true
	}
	for target := range r.mu.tries {
		if !wanted[target] {
			delete(r.mu.tries, target)
		}
	}
	for target := range wanted {
		if try := r.mu.tries[target]; try == nil || !now.Before(try.next) {
			due = append(due, target)
		}
	}
	r.pending.Store(int64(len(wanted)))
	slices.SortFunc(due, func(a, b shardRange) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.fromMs, b.fromMs))
	})
	return due
}

// wanted reports whether a range is still to be mended.
func (r *repairer) wanted(damages []manifest.Damage, target shardRange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.suspects[target] || slices.ContainsFunc(damages, func(d manifest.Damage) bool {
		return shardRange{d.Shard, d.FromMs, d.ToMs} == target
	})
}

// handsOver reports whether a shard is to be handed over before an attempt, and notes that it
// is. When no other copy has given the range, others can read it no better than this node:
// they would only hand the shard back.
func (r *repairer) handsOver(target shardRange, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	try := r.mu.tries[target]
	if try == nil {
		try = &repairTry{}
		r.mu.tries[target] = try
	}
	if !try.handed.IsZero() && now.Sub(try.handed) < handOverAgain {
		return false
	}
	try.handed = now
	return true
}

// ended notes what became of an attempt. A copy that is not here any more, or is the only
// one, is not suspected any more.
func (r *repairer) ended(target shardRange, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.mu.suspects, target)
		delete(r.mu.tries, target)
		return
	}
	r.failures.Add(1)
	if errors.Is(err, errNotFull) || errors.Is(err, errNoCopy) || errors.Is(err, replica.ErrNoGroup) {
		delete(r.mu.suspects, target)
	}
	try := r.mu.tries[target]
	if try == nil {
		try = &repairTry{}
		r.mu.tries[target] = try
	}
	try.delay = min(max(2*try.delay, repairDelayMin), repairDelayMax)
	try.next, try.err = now.Add(try.delay), err
}

// why returns the reason why a range is not mended yet, or nil if that was not tried.
func (r *repairer) why(target shardRange) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if try := r.mu.tries[target]; try != nil {
		return try.err
	}
	return nil
}

// What keeps a range from being mended.
var (
	errNoCopy  = errors.New("there is no other copy")
	errNotFull = errors.New("this node has no full copy of the shard")
	errLeads   = errors.New("no other copy takes it")
)

// repair mends one range. While this node leads the shard it hands that over first, if
// somebody takes it: reads of what is damaged give errors here.
func (s *Service) repair(ctx context.Context, target shardRange) error {
	status, err := s.status(target.shard)
	if err != nil {
		return err
	}
	names := otherCopies(&status)
	switch {
	case status.Role != shardmap.Full:
		return errNotFull
	case len(names) == 0 || s.options.Copies == nil:
		return errNoCopy
	case status.Leads && s.repairer.handsOver(target, time.Now()):
		s.options.Logger.Warn("a shard is handed over, since a part of it is damaged here", "range", target)
		if err := s.handOver(ctx, target.shard); err != nil {
			s.options.Logger.Warn("the shard stays here while a part of it is repaired", "range", target, "error", err)
		}
	}
	start := time.Now()
	var problems []error
	for _, name := range s.sources(ctx, target, names) {
		bounded, cancel := context.WithTimeout(ctx, rangeWait)
		done, err := s.options.Engine.RepairRange(bounded, target.shard, target.fromMs, target.toMs, &copySource{s, name})
		cancel()
		if err == nil {
			s.repairer.repairs.Add(1)
			s.repairer.series.Add(done.Series)
			s.repairer.samples.Add(done.Samples)
			s.options.Logger.Info("a range was repaired", "range", shardRange{done.Shard, done.FromMs, done.ToMs}, "from", name, "series", done.Series,
				"samples", done.Samples, "segments", done.Suppressed, "took_ms", time.Since(start).Milliseconds())
			return nil
		}
		problems = append(problems, fmt.Errorf("from node %s: %w", name, err))
	}
	err = errors.Join(problems...)
	s.options.Logger.Warn("a range could not be repaired; it will be tried again", "range", target, "error", err)
	return err
}

// sources returns which of the other copies a range may be taken from: not those that differ
// from a majority now. What has brought the range here was found a while ago, and another copy may
// have become wrong since.
func (s *Service) sources(ctx context.Context, target shardRange, names []string) []string {
	found, err := s.digests(ctx, target)
	if err != nil {
		return names // this copy cannot be read, which is why it is mended
	}
	v := judge(found)
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(v.bad, name) })
}

// handOver waits until another node leads the shard. What is damaged is to be mended
// right then: leaders are spread evenly again before long.
func (s *Service) handOver(ctx context.Context, shard uint16) error {
	err := s.options.Groups.TransferLeader(shard, "")
	for deadline := time.Now().Add(handOverWait); err == nil; {
		status, problem := s.status(shard)
		switch {
		case problem != nil:
			return problem
		case !status.Leads && status.Leader != "":
			return nil
		case time.Now().After(deadline):
			return errLeads
		}
		select {
		case <-time.After(handOverLook):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

const (
	handOverLook  = 50 * time.Millisecond
	handOverWait  = 3 * time.Second  // more than an election takes
	handOverAgain = 10 * time.Minute // for the same range
)

// copySource is another node's copy, as a source of ranges.
type copySource struct {
	service *Service
	name    string
}

// OpenRange implements transfer.RepairSource.
func (s *copySource) OpenRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64) (io.ReadCloser, error) {
	return s.service.options.Copies.OpenRange(ctx, s.name, shard, fromMs, toMs, indexMin)
}

// AwaitApplied implements transfer.RepairSource.
func (s *copySource) AwaitApplied(ctx context.Context, shard uint16, index uint64) error {
	return s.service.awaitApplied(ctx, shard, index)
}

// problems tell what a person should know of damage.
func (r *repairer) problems(damages []manifest.Damage) (list []string) {
	const most = 8
	for i := range damages {
		if len(list) == most {
			return append(list, fmt.Sprintf("%d more parts of segments are damaged", len(damages)-most))
		}
		d := &damages[i]
		target := shardRange{d.Shard, d.FromMs, d.ToMs}
		line := fmt.Sprintf("%s cannot be read (%s): it is fetched from another copy", target, d.Reason)
		if err := r.why(target); err != nil {
			line = fmt.Sprintf("%s cannot be read (%s), and is not repaired yet: %v", target, d.Reason, err)
		}
		list = append(list, line)
	}
	return list
}
