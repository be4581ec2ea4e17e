package api

import (
	"context"
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// session is what a stream of writes names by handles. One goroutine uses it.
type session struct {
	s       *Server
	ctx     context.Context
	handles []handle // by number
	memory  memory
	keys    int // bytes of keys

	databases    []sessionDatabase
	databaseOf   map[string]uint32 // by name: index into databases
	lastDatabase uint32
	met          []uint32 // databases of the batch being encoded

	generation uint64 // in which the ids of handles were learnt
	batch      uint64 // number of the batch being encoded, from 1
	hint       uint32

	// Handles of the batch whose ids are asked for.
	asked []uint32
	names []series.Key
	refs  []series.Ref
}

// handle is a series by its short name.
type handle struct {
	key      series.Key // nil: not defined, or wrong
	wrong    error      // why its samples are left out; wire.ErrInvalid, or with a key wire.ErrDenied
	shard    uint16
	known    bool   // id is the series' id
	scale    uint8  // of its last value
	database uint32 // index into the session's
	id       series.ID

	// Of the batch in which it was met last.
	batch uint64
	part  uint32
	ref   series.ID // its id, or the definition in the part
}

const handleBytes = 72

func newSession(ctx context.Context, s *Server) *session {
	return &session{s: s, ctx: ctx, memory: s.writes(ctx), hint: series.HintNone, generation: s.options.Generation(), databaseOf: map[string]uint32{}}
}

// close frees its memory.
func (x *session) close() { x.memory.close() }

// define takes definitions in. Samples of a series that is not legal are left out
// later. Errors, after which the definitions before the wrong one hold:
// wire.ErrInvalid, series.ErrOverloaded.
func (x *session) define(definitions []*tickmeshv1.SeriesHandle) error {
	for _, d := range definitions {
		if err := x.defineOne(d); err != nil {
			return fmt.Errorf("definition of handle %d: %w", d.GetHandle(), err)
		}
	}
	return nil
}

func (x *session) defineOne(d *tickmeshv1.SeriesHandle) error {
	limits := &x.s.options.Limits
	if uint64(d.GetHandle()) >= uint64(limits.HandlesMax) {
		return fmt.Errorf("%w: handles are below %d", wire.ErrInvalid, limits.HandlesMax)
	}
	if err := x.grow(int(d.GetHandle()) + 1); err != nil {
		return err
	}
	h := &x.handles[d.GetHandle()]
	x.forget(h)
	database, err := x.database(d.GetSeries())
	var key series.Key
	if err == nil {
		key, err = keyOf(d.GetSeries(), limits)
	}
	switch {
	case err != nil:
		h.wrong = err
		return nil //nolint:nilerr // the samples of the series are refused with it
	case x.keys+len(key) > limits.SessionKeysMax:
		return fmt.Errorf("%w: the stream names series of more than %d bytes; open another one", wire.ErrInvalid, limits.SessionKeysMax)
	case !x.memory.take(int64(len(key))):
		return errMemory
	}
	x.keys += len(key)
	*h = handle{key: key, shard: series.Sharding{Shards: x.s.options.Shards, Key: x.s.options.ShardKey}.Of(key), scale: series.ScaleFloat, database: database}
	return nil
}

// keyOf returns the key of a series. Errors: wire.ErrInvalid.
func keyOf(m *tickmeshv1.Series, limits *Limits) (series.Key, error) {
	if len(m.GetMetric()) == 0 {
		return nil, fmt.Errorf("%w: the series has no metric", wire.ErrInvalid)
	}
	if len(m.GetTags()) > limits.TagsMax {
		return nil, fmt.Errorf("%w: the series has %d tags, more than %d", wire.ErrInvalid, len(m.GetTags()), limits.TagsMax)
	}
	for _, t := range m.GetTags() {
		if len(t.GetName()) == 0 || len(t.GetValue()) == 0 {
			return nil, fmt.Errorf("%w: tag %q=%q has no name or no value", wire.ErrInvalid, t.GetName(), t.GetValue())
		}
	}
	key, err := wire.AppendKey(nil, m)
	if err == nil && len(key) > limits.KeyBytesMax {
		err = fmt.Errorf("%w: the series' key has %d bytes, more than %d", wire.ErrInvalid, len(key), limits.KeyBytesMax)
	}
	return key, err
}

// forget makes a handle undefined.
func (x *session) forget(h *handle) {
	n := len(h.key)
	x.keys -= n
	x.memory.release(int64(n))
	*h = handle{}
}

// grow makes room for n handles.
func (x *session) grow(n int) error {
	if n <= len(x.handles) {
		return nil
	}
	n = min(max(n, 2*len(x.handles), 16), x.s.options.Limits.HandlesMax)
	if !x.memory.take(int64(n-len(x.handles)) * handleBytes) {
		return errMemory
	}
	grown := make([]handle, n)
	copy(grown, x.handles)
	x.handles = grown
	return nil
}

// encode checks the samples of a batch and encodes them by shard. Errors:
// wire.ErrInvalid, naming the sample; *tenant.RateError.
func (x *session) encode(b *tickmeshv1.Batch, out *outgoing) error {
	handles, times, values := b.GetHandles(), b.GetTimeDeltasMs(), b.GetValues()
	if len(times) != len(handles) || len(values) != len(handles) {
		return fmt.Errorf("%w: columns of %d handles, %d times and %d values", wire.ErrInvalid, len(handles), len(times), len(values))
	}
	id, err := wire.ToBatchID(b.GetBatchId())
	if err != nil {
		return err
	}
	if id.IsKeyed() {
		return fmt.Errorf("%w: the counter %d of the batch's id is not below 2^63", wire.ErrInvalid, id.Counter)
	}
	level, err := wire.ToLevel(b.GetLevel())
	if err != nil {
		return err
	}
	if err := x.resolve(handles); err != nil {
		return err
	}
	out.begin(series.Frame{ID: id, Level: level, Generation: x.generation, Hours: b.GetHours()})
	t, points := int64(0), 0
	for i, number := range handles {
		h := &x.handles[number]
		var ok bool
		if t, ok = addTime(t, times[i]); !ok {
			return fmt.Errorf("%w: sample %d, of %s: its time is out of range", wire.ErrInvalid, i, h.key)
		}
		if h.wrong != nil {
			out.leaveOut(number, h)
			continue
		}
		if h.ref == refNone {
			part, ref := out.reference(h, number)
			h.part, h.ref = uint32(part), ref
		}
		n := series.DecimalOf(values[i], h.scale)
		h.scale = n.Scale
		out.encoder.Batch(int(h.part)).Append(h.ref, t, n.Mantissa, n.Scale)
		points++
	}
	out.encoder.Finish(points)
	return x.shares(out, handles)
}

// addTime adds a difference to a time and reports whether the sum is one.
func addTime(t, delta int64) (int64, bool) {
	if delta > 0 && t > math.MaxInt64-delta || delta < 0 && t < math.MinInt64-delta {
		return 0, false
	}
	t += delta
	return t, t >= scan.TimeMsMin && t <= scan.TimeMsMax
}

// refNone is the ref of a handle that the batch has met and not yet encoded; no
// frame has so many definitions.
const refNone series.ID = 1<<32 - 1

// resolve begins a batch: each of its handles is met once, and the ids of those that
// have none are asked for.
func (x *session) resolve(handles []uint32) error {
	if g := x.s.options.Generation(); g != x.generation {
		x.generation = g
		for i := range x.handles {
			x.handles[i].known = false
		}
	}
	x.batch++
	x.asked, x.names, x.met = x.asked[:0], x.names[:0], x.met[:0]
	entered, denied := uint32(noDatabase), error(nil)
	for i, number := range handles {
		if int(number) >= len(x.handles) || x.handles[number].key == nil && x.handles[number].wrong == nil {
			return fmt.Errorf("%w: sample %d: handle %d is not defined", wire.ErrInvalid, i, number)
		}
		h := &x.handles[number]
		if h.batch == x.batch {
			continue
		}
		h.batch, h.ref = x.batch, refNone
		if h.key != nil {
			if h.database != entered {
				entered, denied = h.database, x.enter(h.database)
			}
			if denied != nil || h.wrong != nil { // it seldom changes
				h.wrong = denied
			}
		}
		if !h.known && h.wrong == nil {
			x.asked, x.names = append(x.asked, number), append(x.names, h.key)
		}
	}
	if len(x.asked) == 0 {
		return nil
	}
	if cap(x.refs) < len(x.names) {
		x.refs = make([]series.Ref, len(x.names))
	}
	refs := x.refs[:len(x.names)]
	x.s.options.Resolver.Resolve(x.hint, x.names, refs)
	for i, ref := range refs {
		if ref.Hint == series.HintNone {
			continue
		}
		h := &x.handles[x.asked[i]]
		h.known, h.id, h.shard, x.hint = true, ref.ID, ref.Shard, ref.Hint
	}
	return nil
}
