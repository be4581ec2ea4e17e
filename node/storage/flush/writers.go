package flush

import (
	"errors"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Writers writes samples, in order of their series, into segments: one for
// each partition. Samples that spread over more partitions than may be written at
// once are counted, so that a layout can be chosen, and taken in further passes.
type Writers struct {
	remove   func([]segment.Meta) error // files that nobody has opened
	spanMax  segment.Span               // the widest partition that retention wants
	options  func(segment.Partition) segment.Options
	layout   *layout // nil: partitions of two hours, if they are few
	counting bool    // samples are counted for the layout, and not written
	writers  map[segment.Partition]*segment.Writer
	done     map[segment.Partition]bool // written in an earlier pass
	more     bool                       // some samples belong to a later pass
	samples  int64
	finished []segment.Meta
}

// NewWriters returns writers of segments with these options. Partitions are no wider than spanMax, unless there would be
// far too many.
func NewWriters(remove func([]segment.Meta) error, spanMax segment.Span, options func(segment.Partition) segment.Options) Writers {
	return Writers{
		remove: remove, spanMax: spanMax, options: options,
		writers: map[segment.Partition]*segment.Writer{}, done: map[segment.Partition]bool{},
	}
}

// Run has pass add all samples as often as that is needed, finish end the segments of
// each time, and returns the segments. Pass may end early when TooNarrow. After an error
// abort has to be called.
func (w *Writers) Run(pass, finish func() error) ([]segment.Meta, error) {
	for {
		w.more = false
		if err := pass(); err != nil {
			return nil, err
		}
		if w.TooNarrow() {
			if err := w.chooseLayout(pass); err != nil {
				return nil, err
			}
			continue
		}
		if err := finish(); err != nil {
			return nil, err
		}
		if !w.more {
			return w.finished, nil
		}
	}
}

// chooseLayout discards what has been written, and looks at all samples.
func (w *Writers) chooseLayout(pass func() error) error {
	if err := w.Abort(); err != nil {
		return err
	}
	w.samples = 0
	w.layout = newLayout(w.spanMax)
	w.counting = true
	if err := pass(); err != nil {
		return err
	}
	w.counting = false
	w.layout.plan()
	return nil
}

// TooNarrow reports whether the samples added so far have too many partitions of two hours.
func (w *Writers) TooNarrow() bool { return w.layout == nil && w.more }

// partitionAt returns the partition that samples of a time are written into.
func (w *Writers) partitionAt(timeMs int64) segment.Partition {
	if w.layout == nil {
		return segment.PartitionOf(timeMs, segment.SpanTwoHours)
	}
	return w.layout.partitionAt(timeMs)
}

// Add writes samples of a series, which are in order of time. Active is called with the times of
// those that each partition took; nil: nobody needs to.
func (w *Writers) Add(shard uint16, id uint32, columns *codec.Columns, active func(timesMs []int64)) error {
	times := columns.Times
	if w.counting {
		w.layout.count(times)
		return nil
	}
	for from := 0; from < len(times); {
		p := w.partitionAt(times[from])
		to := from + 1
		for to < len(times) && times[to] < p.EndMs {
			to++
		}
		writer, err := w.writer(p)
		if err != nil {
			return err
		}
		if writer != nil {
			part := codec.Columns{Times: times[from:to], Mantissas: columns.Mantissas[from:to], Scales: columns.Scales[from:to]}
			if err := writer.Add(shard, id, &part); err != nil {
				return err
			}
			w.samples += int64(to - from)
			if active != nil {
				active(part.Times)
			}
		}
		from = to
	}
	return nil
}

// writer returns the writer of a partition, or nil if its turn is not now.
func (w *Writers) writer(p segment.Partition) (*segment.Writer, error) {
	if writer := w.writers[p]; writer != nil || w.done[p] {
		return writer, nil
	}
	if len(w.writers) >= PartitionsAtOnce {
		w.more = true
		return nil, nil
	}
	options := w.options(p)
	options.Rollups = p.EndMs-p.StartMs >= segment.DayMs // no merge may come for days
	options.Digests = true                               // backups ask for those of what was written a moment ago
	writer, err := segment.Create(options)
	if err != nil {
		return nil, err
	}
	w.writers[p] = writer
	return writer, nil
}

// Finish ends the segments of a pass.
func (w *Writers) Finish() error {
	for p, writer := range w.writers {
		meta, err := writer.Finish()
		if err != nil {
			return err
		}
		delete(w.writers, p)
		w.done[p] = true
		w.finished = append(w.finished, meta)
	}
	return nil
}

// Forget leaves the segments that are finished to whoever was given them.
func (w *Writers) Forget() { w.finished = nil }

// Abort removes all segments, finished or not.
func (w *Writers) Abort() error {
	problems := []error{w.remove(w.finished)}
	w.finished = nil
	for p, writer := range w.writers {
		problems = append(problems, writer.Abort())
		delete(w.writers, p)
	}
	return errors.Join(problems...)
}
