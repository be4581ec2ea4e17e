package wire

import (
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/scan"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

const shardMax = math.MaxUint16

// FromSelector returns a selector's message. Shards are not in it: requests to nodes
// have them beside it.
func FromSelector(s *scan.Selector) *tickmeshv1.Selector {
	m := &tickmeshv1.Selector{
		Database: []byte(s.Database), Metric: []byte(s.Metric), MetricAny: s.MetricAny, Exact: s.Exact,
	}
	for i := range s.Matchers {
		matcher := &s.Matchers[i]
		var values [][]byte
		if matcher.Kind != scan.MatchPresent && matcher.Kind != scan.MatchAbsent { // they ignore values
			for _, v := range matcher.Values {
				values = append(values, []byte(v))
			}
		}
		m.Matchers = append(m.Matchers, &tickmeshv1.Matcher{
			Name: []byte(matcher.Name), Kind: tickmeshv1.MatchKind(matcher.Kind) + 1, Values: values,
		})
	}
	return m
}

// ToSelector returns the selector of a message. Errors: ErrInvalid.
func ToSelector(m *tickmeshv1.Selector) (scan.Selector, error) {
	if m == nil {
		return scan.Selector{}, fmt.Errorf("%w: there is no selector", ErrInvalid)
	}
	s := scan.Selector{
		Database: string(m.GetDatabase()), Metric: string(m.GetMetric()), MetricAny: m.GetMetricAny(), Exact: m.GetExact(),
	}
	if s.MetricAny && s.Metric != "" {
		return scan.Selector{}, fmt.Errorf("%w: the selector has both a metric and metric_any", ErrInvalid)
	}
	for i, matcher := range m.GetMatchers() {
		converted, err := toMatcher(matcher)
		if err != nil {
			return scan.Selector{}, fmt.Errorf("matcher %d: %w", i, err)
		}
		s.Matchers = append(s.Matchers, converted)
	}
	return s, nil
}

func toMatcher(m *tickmeshv1.Matcher) (scan.Matcher, error) {
	kind := m.GetKind()
	if kind < tickmeshv1.MatchKind_MATCH_KIND_EQUAL || kind > tickmeshv1.MatchKind_MATCH_KIND_ABSENT {
		return scan.Matcher{}, fmt.Errorf("%w: unknown kind %d", ErrInvalid, kind)
	}
	matcher := scan.Matcher{Name: string(m.GetName()), Kind: scan.MatchKind(kind - 1)}
	switch matcher.Kind {
	case scan.MatchEqual, scan.MatchNotEqual, scan.MatchRegexp, scan.MatchNotRegexp:
		if len(m.GetValues()) != 1 {
			return scan.Matcher{}, fmt.Errorf("%w: it has %d values instead of one", ErrInvalid, len(m.GetValues()))
		}
	case scan.MatchPresent, scan.MatchAbsent:
		if len(m.GetValues()) != 0 {
			return scan.Matcher{}, fmt.Errorf("%w: it has values", ErrInvalid)
		}
	}
	for _, v := range m.GetValues() {
		matcher.Values = append(matcher.Values, string(v))
	}
	return matcher, nil
}

// FromWindows returns the message of windows; nil for nil.
func FromWindows(w *scan.Windows) *tickmeshv1.Windows {
	if w == nil {
		return nil
	}
	m := &tickmeshv1.Windows{OriginMs: w.OriginMs, WidthMs: w.WidthMs, RecordedDigests: w.RecordedDigests}
	for i := range aggregatesCount {
		if w.Aggregates&(1<<i) != 0 {
			m.Aggregates = append(m.Aggregates, tickmeshv1.Aggregate(i+1))
		}
	}
	return m
}

// aggregatesCount is the number of functions that a window can carry; bit n of
// scan.Aggregate is value n+1 of the message.
const aggregatesCount = 8

// ToWindows returns the windows of a message; nil for nil. Errors: ErrInvalid.
func ToWindows(m *tickmeshv1.Windows) (*scan.Windows, error) {
	if m == nil {
		return nil, nil
	}
	w := &scan.Windows{OriginMs: m.GetOriginMs(), WidthMs: m.GetWidthMs(), RecordedDigests: m.GetRecordedDigests()}
	if w.WidthMs < 1 {
		return nil, fmt.Errorf("%w: windows of %d ms", ErrInvalid, w.WidthMs)
	}
	for _, a := range m.GetAggregates() {
		if a < 1 || a > aggregatesCount {
			return nil, fmt.Errorf("%w: unknown aggregate %d", ErrInvalid, a)
		}
		w.Aggregates |= 1 << (a - 1)
	}
	if w.Aggregates == 0 {
		return nil, fmt.Errorf("%w: windows without aggregates", ErrInvalid)
	}
	const besideDigest = scan.AggregateCount | scan.AggregateHidden
	switch digest := w.Aggregates&scan.AggregateDigest != 0; {
	case digest && w.Aggregates&^(scan.AggregateDigest|besideDigest) != 0:
		return nil, fmt.Errorf("%w: digests of windows go with their numbers of samples, and hidden ones, only", ErrInvalid)
	case !digest && w.Aggregates&scan.AggregateHidden != 0:
		return nil, fmt.Errorf("%w: hidden numbers of windows go with digests only", ErrInvalid)
	}
	return w, nil
}

// FromLimits returns the message of limits.
func FromLimits(l scan.Limits) *tickmeshv1.ScanLimits {
	return &tickmeshv1.ScanLimits{SeriesMax: l.SeriesMax, SamplesMax: l.SamplesMax, BytesMax: l.BytesMax}
}

// ToLimits returns the limits of a message; none for nil. Errors: ErrInvalid.
func ToLimits(m *tickmeshv1.ScanLimits) (scan.Limits, error) {
	l := scan.Limits{SeriesMax: m.GetSeriesMax(), SamplesMax: m.GetSamplesMax(), BytesMax: m.GetBytesMax()}
	if l.SeriesMax < 0 || l.SamplesMax < 0 || l.BytesMax < 0 {
		return scan.Limits{}, fmt.Errorf("%w: a limit is negative", ErrInvalid)
	}
	return l, nil
}

// FromShards returns the message of a list of shards.
func FromShards(shards []uint16) []uint32 {
	m := make([]uint32, len(shards))
	for i, s := range shards {
		m[i] = uint32(s)
	}
	return m
}

// ToShards returns the shards of a message: at least one, in growing order. Errors:
// ErrInvalid.
func ToShards(m []uint32) ([]uint16, error) {
	if len(m) == 0 {
		return nil, fmt.Errorf("%w: no shards", ErrInvalid)
	}
	if len(m) > shardMax+1 {
		return nil, fmt.Errorf("%w: %d shards", ErrInvalid, len(m))
	}
	shards := make([]uint16, len(m))
	for i, s := range m {
		if s > shardMax {
			return nil, fmt.Errorf("%w: shard %d", ErrInvalid, s)
		}
		if i > 0 && s <= m[i-1] {
			return nil, fmt.Errorf("%w: shard %d after shard %d", ErrInvalid, s, m[i-1])
		}
		shards[i] = uint16(s)
	}
	return shards, nil
}

// ToShard returns one shard of a message. Errors: ErrInvalid.
func ToShard(m uint32) (uint16, error) {
	if m > shardMax {
		return 0, fmt.Errorf("%w: shard %d", ErrInvalid, m)
	}
	return uint16(m), nil
}

// FromShardEnd returns the message that ends a shard's part of an answer.
func FromShardEnd(shard uint16, err error) *nodev1.ShardEnd {
	return &nodev1.ShardEnd{Shard: uint32(shard), Error: FromError(err), Leader: Leader(err)}
}

// ToShardEnd returns the shard whose part of an answer ends, and the error that it
// ends with. Errors of the message itself: ErrInvalid, as err.
func ToShardEnd(m *nodev1.ShardEnd) (shard uint16, shardErr, err error) {
	if shard, err = ToShard(m.GetShard()); err != nil {
		return 0, nil, err
	}
	if m.GetError() == nil {
		return shard, nil, nil
	}
	return shard, ShardError(m.GetError(), shard, m.GetLeader()), nil
}
