package segment

import "github.com/tickmesh/tickmesh/node/storage/codec"

// input is one segment of a merge. Its current block is decoded when needed;
// columns then holds the samples that are left of it.
type input struct {
	walker
	buffer  codec.Columns
	columns codec.Columns // a part of buffer
	decoded bool
	hidden  []TimeRange
	hours   hourRecords // of a thinned one
	days    dayDigestWalker
}

// has reports whether the input has more of a series.
func (in *input) has(shard uint16, id uint32) bool {
	return !in.done && in.shard == shard && in.id() == id
}

// firstMs returns the time of the next sample.
func (in *input) firstMs() int64 {
	if in.decoded {
		return in.columns.Times[0]
	}
	return in.block().minMs
}

// decode decodes the current block.
func (in *input) decode() error {
	in.buffer.Reset()
	if err := in.walker.columns(&in.buffer); err != nil {
		return err
	}
	in.columns, in.decoded = in.buffer, true
	return nil
}

// pass moves beyond the first n samples of the decoded block.
func (in *input) pass(n int) error {
	if n < in.columns.Len() {
		in.columns = columnsBetween(&in.columns, n, in.columns.Len())
		return nil
	}
	in.decoded = false
	return in.next()
}

// hides reports whether a range of time touches what is hidden in this input.
func (in *input) hides(fromMs, toMs int64) bool {
	for _, r := range in.hidden {
		if r.FromMs <= toMs && fromMs <= r.ToMs {
			return true
		}
	}
	return false
}

// addDayDigest adds what the input tells of the series, which comes after those that were asked for before.
func (in *input) addDayDigest(day *dayDigest, id uint32) error {
	w := &in.days
	if w.reader != in.reader || w.shardAt != in.shardAt {
		*w = dayDigestWalker{reader: in.reader, shardAt: in.shardAt, ids: w.ids[:0], days: w.days[:0]}
	}
	for len(w.ids) == 0 || w.ids[w.at] < id {
		ok, err := w.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
	}
	if len(w.ids) == 0 || w.ids[w.at] != id {
		return &CorruptError{File: in.reader.name, Part: PartDayDigests, Shard: in.shard, ID: id, Reason: "no digest of a day"}
	}
	day.samples += w.days[w.at].samples
	day.sum += w.days[w.at].sum
	return nil
}
