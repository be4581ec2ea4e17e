package segment

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
)

// MergeOptions say what Merge makes. The range of sequences is that of the
// inputs, whatever Options say, and the partition must cover theirs.
type MergeOptions struct {
	Options

	// BytesMax ends an output at the first shard border at which it is larger;
	// 0: one output, whatever its size.
	BytesMax int64

	// Hidden, when given, appends to dst the ranges of time in which samples of
	// a series of an input are to be left out: those of the tombstones that are
	// later than the input. The ranges may overlap. What is hidden in an input
	// must be hidden in all earlier ones.
	Hidden func(dst []TimeRange, input *Meta, shard uint16, id uint32) []TimeRange

	// ThinBefore, if not nil, returns the start of a day before which samples of a series are thinned: of each hour the
	// last one is kept, and the rollups go on to tell of all of them. The caller makes sure that no
	// sample of such an hour is outside of the inputs, or will be.
	ThinBefore func(shard uint16, id uint32) int64

	// SkipShard, if not nil, reports for which shards nothing of an input counts: their
	// sections are not even read, so they may be damaged.
	SkipShard func(input *Meta, shard uint16) bool
}

// InputsMax bounds the inputs of one merge, and with them its memory: each holds
// one decoded block and one index page.
const InputsMax = 256

// Merge writes the samples of the inputs, which are given from the earliest
// sequences to the latest, as new segments, and returns their Metas: none if nothing
// is left, several if BytesMax says so. Of samples of one series with equal times
// the one of the later input is kept. The caller holds references of the inputs,
// which stay as they are; making the outputs count instead of them is its task.
//
// After an error no output is left. Errors are *CorruptError of an input,
// *vfs.FaultError, ErrOptions, those of the disk and of the context.
func Merge(ctx context.Context, inputs []*Reader, o MergeOptions) ([]Meta, error) {
	if err := o.take(inputs); err != nil {
		return nil, err
	}
	m := &merger{ctx: ctx, o: &o, inputs: make([]input, len(inputs)), carrier: carrier{on: o.Digests}}
	for i, r := range inputs {
		m.inputs[i].start(r, 0, r.meta.Shards)
		if o.SkipShard != nil {
			m.inputs[i].skip = func(shard uint16) bool { return o.SkipShard(&r.meta, shard) }
		}
		m.inputs[i].ahead.bytes = min(aheadBytes, aheadMergeBytes/int64(len(inputs)))
	}
	err := m.run()
	if err == nil {
		err = m.finishOutput()
	}
	if err != nil {
		return nil, errors.Join(err, m.abandon())
	}
	return m.outputs, nil
}

// take checks the inputs and sets the range of sequences.
func (o *MergeOptions) take(inputs []*Reader) error {
	if len(inputs) == 0 || len(inputs) > InputsMax {
		return fmt.Errorf("%w: %d inputs of a merge", ErrOptions, len(inputs))
	}
	o.SequenceLow, o.SequenceHigh = inputs[0].meta.SequenceLow, inputs[0].meta.SequenceHigh
	for i, r := range inputs {
		m := &r.meta
		if !o.Covers(m.Partition) {
			return fmt.Errorf("%w: %s lies outside of the output's partition", ErrOptions, m.Name)
		}
		for _, earlier := range inputs[:i] {
			if conflict(&earlier.meta, m) && earlier.meta.SequenceHigh >= m.SequenceLow {
				return fmt.Errorf("%w: %s does not come after %s", ErrOptions, m.Name, earlier.meta.Name)
			}
		}
		o.SequenceLow = min(o.SequenceLow, m.SequenceLow)
		o.SequenceHigh = max(o.SequenceHigh, m.SequenceHigh)
	}
	o.Thinned = o.ThinBefore != nil || slices.ContainsFunc(inputs, func(r *Reader) bool { return r.meta.Thinned })
	o.Digests = o.carries(inputs)
	prefix := namePrefix(&Meta{Partition: o.Partition, Level: o.Level, SequenceLow: o.SequenceLow, SequenceHigh: o.SequenceHigh})
	for _, r := range inputs {
		if namePrefix(&r.meta) == prefix {
			return fmt.Errorf("%w: the output would have the name of its input %s: raise the level", ErrOptions, r.meta.Name)
		}
	}
	return nil
}

// conflict reports whether two segments can have samples of one series and time.
func conflict(a, b *Meta) bool {
	return a.Overlaps(b.Partition) && a.ShardLow <= b.ShardHigh && b.ShardLow <= a.ShardHigh
}

// merger is one call of Merge.
type merger struct {
	ctx     context.Context
	o       *MergeOptions
	inputs  []input
	active  []*input // those that have the current series
	w       *Writer
	outputs []Meta
	encoded []byte // scratch
	thinner thinner
	carrier carrier

	// What the current shard's digest is: that of the inputs less what is
	// dropped. See digest in FORMAT.md.
	digest uint64
}

func (m *merger) run() error {
	for i := range m.inputs {
		if err := m.inputs[i].next(); err != nil {
			return err
		}
	}
	for {
		shard, ok := m.lowestShard()
		if !ok {
			return nil
		}
		if err := m.mergeShard(shard); err != nil {
			return err
		}
	}
}

func (m *merger) lowestShard() (shard uint16, ok bool) {
	for i := range m.inputs {
		in := &m.inputs[i]
		if !in.done && (!ok || in.shard < shard) {
			shard, ok = in.shard, true
		}
	}
	return shard, ok
}

// mergeShard merges the current shard of the inputs.
func (m *merger) mergeShard(shard uint16) error {
	if err := m.splitOutput(); err != nil {
		return err
	}
	m.sumDigests(shard)
	for {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		id, ok := m.lowestSeries(shard)
		if !ok {
			break
		}
		if err := m.mergeSeries(shard, id); err != nil {
			return err
		}
	}
	if m.w.inShard && m.w.section.info.Shard == shard {
		m.w.section.digest = m.digest
		return m.w.endShard()
	}
	return nil
}

// lowestSeries returns the next series of the shard and collects the inputs that
// have it, oldest first.
func (m *merger) lowestSeries(shard uint16) (id uint32, ok bool) {
	m.active = m.active[:0]
	for i := range m.inputs {
		in := &m.inputs[i]
		if in.done || in.shard != shard {
			continue
		}
		switch {
		case !ok || in.id() < id:
			id, ok = in.id(), true
			m.active = append(m.active[:0], in)
		case in.id() == id:
			m.active = append(m.active, in)
		}
	}
	return id, ok
}

// splitOutput makes sure that there is a writer, at a shard border.
func (m *merger) splitOutput() error {
	if m.w != nil && m.o.BytesMax > 0 && m.w.out.offset > m.o.BytesMax {
		if err := m.finishOutput(); err != nil {
			return err
		}
	}
	if m.w != nil {
		return nil
	}
	var err error
	if m.w, err = Create(m.o.Options); err == nil {
		m.w.section.carried = true // or there are none, or rollups make them
	}
	return err
}

func (m *merger) finishOutput() error {
	if m.w == nil {
		return nil
	}
	meta, err := m.w.Finish()
	m.w = nil
	if errors.Is(err, ErrEmpty) {
		return nil
	}
	if err == nil {
		m.outputs = append(m.outputs, meta)
	}
	return err
}

// abandon removes what was written.
func (m *merger) abandon() (err error) {
	if m.w != nil {
		err = m.w.Abort()
	}
	for i := range m.outputs {
		err = errors.Join(err, m.o.FS.Remove(path.Join(m.o.Dir, m.outputs[i].Name)))
	}
	return err
}
