package rpc

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

const parallelMax = 64

func toSelector(m *tickmeshv1.Selector, shards []uint32) (scan.Selector, error) {
	s, err := wire.ToSelector(m)
	if err != nil {
		return s, err
	}
	s.Shards, err = wire.ToShards(shards)
	return s, err
}

func toRange(fromMs, toMs int64) error {
	if fromMs < scan.TimeMsMin || toMs > scan.TimeMsMax || fromMs > toMs {
		return fmt.Errorf("%w: the range from %d to %d ms", wire.ErrInvalid, fromMs, toMs)
	}
	return nil
}

func toScanRequest(m *nodev1.ScanRequest) (*ScanRequest, error) {
	shards := make([]uint32, len(m.GetShards()))
	r := &ScanRequest{
		AfterIDs:  make([]series.ID, len(shards)),
		Freshness: toFreshness(m.GetFreshness()), Snapshot: m.GetSnapshot(),
	}
	for i, from := range m.GetShards() {
		shards[i] = from.GetShard()
		if r.AfterIDs[i] = series.ID(from.GetAfterId()); r.AfterIDs[i] > series.IDMax {
			return nil, fmt.Errorf("%w: series id %d", wire.ErrInvalid, from.GetAfterId())
		}
	}
	var err error
	if r.Selector, err = toSelector(m.GetSelector(), shards); err != nil {
		return nil, err
	}
	r.FromMs, r.ToMs = m.GetFromMs(), m.GetToMs()
	if err = toRange(r.FromMs, r.ToMs); err != nil {
		return nil, err
	}
	if r.Windows, err = wire.ToWindows(m.GetWindows()); err != nil {
		return nil, err
	}
	if r.Steps, err = wire.ToSteps(m.GetSteps()); err != nil {
		return nil, err
	}
	if r.Steps != nil && r.Windows != nil {
		return nil, fmt.Errorf("%w: both windows and steps", wire.ErrInvalid)
	}
	if r.Steps != nil && r.Steps.Fold != nil && slices.Max(r.AfterIDs) > 0 {
		return nil, fmt.Errorf("%w: a fold goes on in the middle of a shard", wire.ErrInvalid)
	}
	if r.Limits, err = wire.ToLimits(m.GetLimits()); err != nil {
		return nil, err
	}
	r.Parallel = int(min(m.GetParallel(), parallelMax))
	return r, nil
}

func toFreshness(m *tickmeshv1.Freshness) Freshness {
	return Freshness{StalenessMaxMs: m.GetStalenessMaxMs()}
}

func toLastRequest(m *nodev1.LastRequest) (*LastRequest, error) {
	r := &LastRequest{FromMs: m.GetFromMs(), Freshness: toFreshness(m.GetFreshness())}
	var err error
	if r.Selector, err = toSelector(m.GetSelector(), m.GetShards()); err != nil {
		return nil, err
	}
	if r.Limits, err = wire.ToLimits(m.GetLimits()); err != nil {
		return nil, err
	}
	return r, toRange(r.FromMs, scan.TimeMsMax)
}

func toSeriesRequest(m *nodev1.ListSeriesRequest) (*SeriesRequest, error) {
	r := &SeriesRequest{Limit: limitOf(m.GetLimit()), Freshness: toFreshness(m.GetFreshness())}
	r.FromMs, r.ToMs = toListedRange(m.GetFromMs(), m.GetToMs())
	var err error
	r.Selector, err = toSelector(m.GetSelector(), m.GetShards())
	return r, err
}

func toNamesRequest(m *nodev1.ListNamesRequest) (*NamesRequest, error) {
	r := &NamesRequest{
		Kind: m.GetKind(), Database: string(m.GetDatabase()), Metric: string(m.GetMetric()), Tag: string(m.GetTagName()),
		StartWith: string(m.GetPrefix()), Limit: limitOf(m.GetLimit()), Freshness: toFreshness(m.GetFreshness()), Snapshot: m.GetSnapshot(),
	}
	if r.Kind < tickmeshv1.NameKind_NAME_KIND_DATABASE || r.Kind > tickmeshv1.NameKind_NAME_KIND_TAG_VALUE {
		return nil, fmt.Errorf("%w: names of kind %d", wire.ErrInvalid, r.Kind)
	}
	r.FromMs, r.ToMs = toListedRange(m.GetFromMs(), m.GetToMs())
	var err error
	r.Shards, err = wire.ToShards(m.GetShards())
	return r, err
}

// toListedRange returns the range of time of a list.
func toListedRange(fromMs, toMs int64) (int64, int64) {
	if fromMs == 0 && toMs == 0 {
		return scan.TimeMsMin, scan.TimeMsMax
	}
	return max(fromMs, scan.TimeMsMin), min(toMs, scan.TimeMsMax)
}

func toDeleteRequest(m *nodev1.DeleteRequest) (*DeleteRequest, error) {
	r := &DeleteRequest{FromMs: m.GetFromMs(), ToMs: m.GetToMs()}
	var err error
	if r.ID, err = wire.ToBatchID(m.GetBatchId()); err != nil {
		return nil, err
	}
	if r.Selector, err = toSelector(m.GetSelector(), m.GetShards()); err != nil {
		return nil, err
	}
	return r, toRange(r.FromMs, r.ToMs)
}
