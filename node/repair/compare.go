package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/node/storage/segment"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// checker compares copies: the leader of a shard asks the other full voters for digests
// of each closed range and compares them with its own. A digest is made by reading, never
// from a note of an earlier one, so that comparing is also what finds bits that a disk
// has lost.
type checker struct {
	mu struct {
		sync.Mutex
		conflicts map[shardRange]string
	}
	ranges, mismatches, undecided, unreadable, samples, passes atomic.Int64
	conflicts                                                  atomic.Int64
}

const (
	// digestLag is how long after its end a day counts as closed: most late samples
	// have come by then. Those that come later are compared like any others.
	digestLag      = 2 * time.Hour
	digestFirst    = 10 * time.Minute // from the start of a node to its first pass, at most
	digestAttempts = 5
	digestRetryMin = 200 * time.Millisecond
	digestRetryMax = 4 * time.Second
	digestWait     = 10 * time.Minute
	conflictsMax   = 1024
)

// compareCopies makes one pass after the other until ctx ends.
func (s *Service) compareCopies(ctx context.Context) {
	for rest := min(s.options.DigestInterval, digestFirst); ; rest = s.options.DigestInterval {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
		for shard := range uint16(s.options.Engine.Shards()) {
			s.checkShard(ctx, shard)
			if ctx.Err() != nil {
				return
			}
		}
		s.checks.passes.Add(1)
	}
}

// checkShard compares all closed ranges of a shard that this node leads.
func (s *Service) checkShard(ctx context.Context, shard uint16) {
	var ranges []segment.TimeRange
	if s.options.Groups.Leads(shard) {
		ranges = s.options.Engine.DigestRanges(shard, s.options.Clock().Add(-digestLag).UnixMilli())
	}
	s.checks.keep(shard, ranges)
	for _, within := range ranges {
		if !s.options.Groups.Leads(shard) || ctx.Err() != nil {
			return
		}
		target := shardRange{shard, within.FromMs, within.ToMs}
		bounded, cancel := context.WithTimeout(ctx, digestWait)
		err := s.checkRange(bounded, target)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.options.Logger.Debug("the copies of a range were not compared", "range", target, "error", err)
		}
	}
}

// checkRange compares the copies of a range.
func (s *Service) checkRange(ctx context.Context, target shardRange) error {
	retry := backoff.Exponential{Min: digestRetryMin, Max: digestRetryMax}
	for attempt := range digestAttempts {
		found, err := s.digests(ctx, target)
		if err != nil {
			s.checks.unreadable.Add(1)
			return err
		}
		v := judge(found)
		if v.decided {
			s.checks.ranges.Add(1)
			return s.enforce(ctx, target, &v)
		}
		select {
		case <-time.After(retry.Delay(attempt + 1)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.checks.undecided.Add(1)
	return errors.New("the copies stand at different entries, or not all answer")
}

// copyDigest is one copy's digest; the first of a list is this node's own.
type copyDigest struct {
	node string
	transfer.RangeDigest
	err error // it is not known
}

// digests asks all copies. It returns an error if this node's own cannot be read.
func (s *Service) digests(ctx context.Context, target shardRange) ([]copyDigest, error) {
	status, err := s.status(target.shard)
	if err != nil {
		return nil, err
	}
	own, err := s.DigestRange(ctx, target.shard, target.fromMs, target.toMs)
	if err != nil {
		return nil, err
	}
	found := []copyDigest{{node: s.options.Node, RangeDigest: own}}
	if s.options.Copies == nil {
		return found, nil
	}
	for _, name := range otherCopies(&status) {
		d, err := s.options.Copies.Digest(ctx, name, target.shard, target.fromMs, target.toMs)
		found = append(found, copyDigest{name, d, err})
	}
	// The others were asked later: what has been applied here since then, without a change
	// of the range, is what they may stand at.
	if since, applied := s.options.Engine.UnchangedSince(target.shard, target.toMs); since == own.Since {
		found[0].Applied = applied
	}
	return found, nil
}

// verdict is what comparing copies has shown.
type verdict struct {
	decided bool
	bad     []string // nodes whose copies differ from those of a majority
	differ  string   // not empty: copies differ, and nobody can say which is right
}

// judge compares digests. Copies that are equal need not stand at the same entry;
// one that differs from this node's counts only when both stand for one entry.
func judge(found []copyDigest) (v verdict) {
	own := &found[0]
	votes := map[transfer.Digest][]string{}
	silent, apart := 0, 0
	for i := range found {
		d := &found[i]
		switch {
		case d.err != nil:
			silent++
		case d.Digest != own.Digest && max(d.Since, own.Since) > min(d.Applied, own.Applied):
			apart++
		default:
			votes[d.Digest] = append(votes[d.Digest], d.node)
		}
	}
	for digest, nodes := range votes {
		if len(votes) > 1 && 2*len(nodes) > len(found) { // whatever the others say
			for other, names := range votes {
				if other != digest {
					v.bad = append(v.bad, names...)
				}
			}
			slices.Sort(v.bad)
			v.decided = true
			return v
		}
	}
	// Who is silent may be the one that would decide between those that differ.
	v.decided = apart == 0 && (len(votes) == 1 || silent == 0)
	if v.decided && len(votes) > 1 {
		v.differ = describeVotes(votes)
	}
	return v
}

func describeVotes(votes map[transfer.Digest][]string) (text string) {
	digests := slices.SortedFunc(maps.Keys(votes), func(a, b transfer.Digest) int { return cmp.Compare(votes[a][0], votes[b][0]) })
	for _, d := range digests {
		text += fmt.Sprintf("; %v: %d samples of %d series, digest %016x", votes[d], d.Samples, d.Series, d.Sum)
	}
	return text[2:]
}

// enforce has bad copies replaced, and reports those that nobody can judge.
func (s *Service) enforce(ctx context.Context, target shardRange, v *verdict) (err error) {
	s.checks.note(target, v.differ)
	if v.differ != "" {
		s.checks.mismatches.Add(1)
		s.options.Logger.Error("copies of a range differ though the checksums of all hold; nothing is changed", "range", target, "copies", v.differ)
	}
	for _, name := range v.bad {
		s.checks.mismatches.Add(1)
		s.options.Logger.Error("a copy of a range differs from those of the majority; it is going to be replaced", "range", target, "holder", name)
		if name == s.options.Node {
			err = errors.Join(err, s.Suspect(target.shard, target.fromMs, target.toMs))
		} else {
			err = errors.Join(err, s.options.Copies.Repair(ctx, name, target.shard, target.fromMs, target.toMs))
		}
	}
	return err
}

// note remembers, or forgets, that copies differ.
func (c *checker) note(target shardRange, differ string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case differ == "":
		delete(c.mu.conflicts, target)
	case len(c.mu.conflicts) < conflictsMax:
		if c.mu.conflicts == nil {
			c.mu.conflicts = map[shardRange]string{}
		}
		c.mu.conflicts[target] = differ
	}
	c.conflicts.Store(int64(len(c.mu.conflicts)))
}

// keep forgets what it knows of a shard's ranges but for those that are going to be
// compared: days become months, and other nodes lead.
func (c *checker) keep(shard uint16, ranges []segment.TimeRange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.mu.conflicts, func(target shardRange, _ string) bool {
		return target.shard == shard && !slices.Contains(ranges, segment.TimeRange{FromMs: target.fromMs, ToMs: target.toMs})
	})
	c.conflicts.Store(int64(len(c.mu.conflicts)))
}

// problems lists where copies differ and nobody can say which is right.
func (c *checker) problems() (list []string) {
	const most = 8
	c.mu.Lock()
	defer c.mu.Unlock()
	for target, differ := range c.mu.conflicts {
		list = append(list, fmt.Sprintf("the copies of %s differ, and the checksums of all hold: %s", target, differ))
	}
	slices.Sort(list)
	if len(list) > most {
		list = append(list[:most], fmt.Sprintf("%d more ranges differ", len(list)-most))
	}
	return list
}
