package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// memory is a Writer and Resolver that keeps every sample in maps: the oracle of
// these tests. It checks each frame as a storage would.
type memory struct {
	shards int

	mu      sync.Mutex
	ids     map[string]series.Ref // key → reference
	keys    map[series.Ref]string
	next    []series.ID                  // by shard
	samples map[string]map[int64]float64 // text of the key → time in ms → value
	points  int
	writes  int
	bad     []error

	// before runs at the start of each write, without the lock; its error is
	// the write's.
	before func(ctx context.Context) error
	// refuse may refuse a new series.
	refuse func(key series.Key) error
}

func newMemory(shards int) *memory {
	return &memory{
		shards: shards, ids: map[string]series.Ref{}, keys: map[series.Ref]string{},
		next: make([]series.ID, shards), samples: map[string]map[int64]float64{},
	}
}

func (m *memory) Resolve(_ uint32, keys []series.Key, refs []series.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, key := range keys {
		ref, ok := m.ids[string(key)]
		if !ok {
			ref.Hint = series.HintNone
		}
		refs[i] = ref
	}
}

func (m *memory) Write(ctx context.Context, frame *series.Frame) (series.Outcome, error) {
	m.mu.Lock()
	before := m.before
	m.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			return series.Outcome{}, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	outcome := series.Outcome{Copies: 2}
	points := 0
	for i := range frame.Parts {
		n, refused, err := m.part(i, &frame.Parts[i])
		if err != nil {
			m.bad = append(m.bad, err)
		}
		points += n
		outcome.Refused = append(outcome.Refused, refused...)
	}
	if points != frame.Points {
		m.bad = append(m.bad, fmt.Errorf("a frame of %d points says %d", points, frame.Points))
	}
	return outcome, nil
}

func (m *memory) part(index int, part *series.Part) (points int, refused []series.Refusal, err error) {
	var r series.BatchReader
	r.Reset(part.Batch)
	var defined []string
	for key, ok := r.NextDefinition(); ok; key, ok = r.NextDefinition() {
		if got := key.Shard(m.shards); got != part.Shard {
			err = fmt.Errorf("%v is of shard %d, not %d", key, got, part.Shard)
		}
		if m.refuse != nil {
			if errRefuse := m.refuse(key); errRefuse != nil {
				refused = append(refused, series.Refusal{Part: index, Definition: len(defined), Err: errRefuse})
				defined = append(defined, "")
				continue
			}
		}
		if _, known := m.ids[string(key)]; !known {
			ref := series.Ref{Shard: part.Shard, ID: m.next[part.Shard]}
			m.next[part.Shard]++
			m.ids[string(key)], m.keys[ref] = ref, string(key)
		}
		defined = append(defined, string(key))
	}
	for r.NextPoint() {
		points++
		var key string
		if r.Ref >= uint32(series.SlotBase) {
			slot := int(r.Ref - uint32(series.SlotBase))
			if slot >= len(defined) {
				return points, refused, errors.New("a point of an unknown definition")
			}
			if key = defined[slot]; key == "" {
				continue
			}
		} else {
			var ok bool
			if key, ok = m.keys[series.Ref{Shard: part.Shard, ID: series.ID(r.Ref)}]; !ok {
				return points, refused, fmt.Errorf("a point of unknown series %d in shard %d", r.Ref, part.Shard)
			}
		}
		text := series.Key(key).String()
		if m.samples[text] == nil {
			m.samples[text] = map[int64]float64{}
		}
		m.samples[text][r.TimeMs] = series.Float64(r.Mantissa, r.Scale)
		m.points++
	}
	if r.Err() != nil {
		err = r.Err()
	}
	return points, refused, err
}

// beforeWrites sets what runs at the start of each write.
func (m *memory) beforeWrites(do func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = do
}

// refuseNew sets what may refuse a new series.
func (m *memory) refuseNew(refuse func(series.Key) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = refuse
}

// stored returns all samples as sorted lines "key time value".
func (m *memory) stored() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := []string{}
	for key, samples := range m.samples {
		for timeMs, value := range samples {
			lines = append(lines, fmt.Sprintf("%s %d %v", key, timeMs, value))
		}
	}
	slices.Sort(lines)
	return lines
}

func (m *memory) value(key string, timeMs int64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.samples[key][timeMs]; ok {
		return v
	}
	return math.NaN()
}

func (m *memory) total() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.points
}

func (m *memory) check(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, err := range m.bad {
		t.Error("a bad frame:", err)
	}
}
