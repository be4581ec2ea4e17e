package client

import (
	"encoding/binary"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Sample is one value of a series.
type Sample struct {
	Series *Series
	TimeMs int64 // milliseconds since 1970 UTC
	Value  float64
}

// batch is samples that are sent together.
type batch struct {
	id      series.BatchID
	hours   bool // its points are those of hours
	series  []*Series
	numbers map[*Series]uint32 // index into series
	columns struct {
		series   []uint32 // index into series
		timesMs  []int64
		values   []float64
		previous int64
	}
	bytes int // at most, of the message
}

func newBatch() *batch { return &batch{numbers: map[*Series]uint32{}} }

// Bytes of a message: of a batch beside its columns, of a sample beside its time, and
// of a definition beside its key.
const (
	messageBytes    = 64
	sampleBytes     = 8 + 4
	definitionBytes = 32
	tagBytes        = 12
)

// cost returns how many bytes a sample would add to the message, at most.
func (b *batch) cost(s *Series, timeMs int64) int {
	n := sampleBytes + binary.PutVarint(make([]byte, binary.MaxVarintLen64), timeMs-b.columns.previous)
	if _, ok := b.numbers[s]; !ok {
		n += definitionBytes + len(s.key) + tagBytes*len(s.tags)
	}
	return n
}

func (b *batch) points() int { return len(b.columns.values) }

func (b *batch) add(s *Series, timeMs int64, value float64) {
	b.bytes += b.cost(s, timeMs)
	number, ok := b.numbers[s]
	if !ok {
		number = uint32(len(b.series))
		b.series, b.numbers[s] = append(b.series, s), number
	}
	c := &b.columns
	c.series, c.timesMs, c.values = append(c.series, number), append(c.timesMs, timeMs), append(c.values, value)
	c.previous = timeMs
}

// handles are the short names that a stream has given to series.
type handles struct {
	numbers map[string]uint32 // by key
	keys    int               // bytes
}

func newHandles() *handles { return &handles{numbers: map[string]uint32{}} }

// fit reports whether all series of a batch can be named too.
func (h *handles) fit(b *batch, handlesMax int) bool {
	count, keys := len(h.numbers), h.keys
	for _, s := range b.series {
		if _, ok := h.numbers[s.key]; !ok {
			count, keys = count+1, keys+len(s.key)
		}
	}
	return count <= handlesMax && keys <= wire.SessionKeyBytesMax
}

// message returns the batch's message, which defines the handles that are new, and the
// handles of its series.
func (h *handles) message(b *batch) (m *tickmeshv1.Batch, of []uint32) {
	m = &tickmeshv1.Batch{
		BatchId: wire.FromBatchID(b.id), Values: b.columns.values,
		TimeDeltasMs: wire.AppendDeltas(make([]int64, 0, b.points()), b.columns.timesMs),
		Handles:      make([]uint32, b.points()), Hours: b.hours,
	}
	of = make([]uint32, len(b.series))
	for i, s := range b.series {
		number, ok := h.numbers[s.key]
		if !ok {
			number = uint32(len(h.numbers))
			h.numbers[s.key] = number
			h.keys += len(s.key)
			m.Definitions = append(m.Definitions, &tickmeshv1.SeriesHandle{Handle: number, Series: s.message})
		}
		of[i] = number
	}
	for i, number := range b.columns.series {
		m.Handles[i] = of[number]
	}
	return m, of
}

// refusals returns, of the series that a server has refused, those that may be sent
// again, as a batch without id, or nil, with why; and the errors of the others.
func (b *batch) refusals(result *tickmeshv1.WriteResult, of []uint32) (again *batch, errs []*RefusedError, why error) {
	if len(result.GetRefused()) == 0 {
		return nil, nil, nil
	}
	refused := map[uint32]error{}
	for _, r := range result.GetRefused() {
		refused[r.GetHandle()] = refusalOf(r)
	}
	lost := map[uint32]*RefusedError{}
	for i, number := range b.columns.series {
		err, ok := refused[of[number]]
		if !ok {
			continue
		}
		if retryAfterOf(err) > 0 {
			if again == nil {
				again, why = newBatch(), err
				again.hours = b.hours
			}
			again.add(b.series[number], b.columns.timesMs[i], b.columns.values[i])
			continue
		}
		if lost[number] == nil {
			lost[number] = &RefusedError{Series: b.series[number], Err: err}
			errs = append(errs, lost[number])
		}
		lost[number].Points++
	}
	return again, errs, why
}
