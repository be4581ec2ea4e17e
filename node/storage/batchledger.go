package storage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// batchLedger is a shard's table of batch ids with what checkpoints need of its
// past.
//
// A checkpoint names a position of the log, and entries behind it are replayed
// over pages that may know them already. That is harmless for samples, but a table
// that knew them would have their batches skipped, whose samples may be nowhere but
// in the log. So a checkpoint stores the table as it was at its last entry. That is
// where an epoch ended: the ledger keeps the table's form before the first change
// of each epoch.
type batchLedger struct {
	table   batchTable
	changed uint64          // the last entry that changed the table
	epoch   uint16          // of that entry
	begun   bool            // there was one since the start
	past    []batchSnapshot // oldest first

	// What was decided about the batches of the present entry. When it stalls it is
	// applied again from its beginning, and its own ids must not stop it.
	verdicts []batchVerdict
	next     int // the next one of them
}

// batchSnapshot is the table as it was from one entry until before another.
type batchSnapshot struct {
	from, until uint64
	encoded     []byte
}

// batchPastMax bounds the snapshots. There are two, more only while checkpoints
// fail. Of too many the second goes: the first is that of the last checkpoint.
const batchPastMax = 8

func newBatchLedger(table batchTable, applied uint64) batchLedger {
	return batchLedger{table: table, changed: applied}
}

// judge reports whether the next batch of an entry is to be applied. Settle follows
// when it is.
func (l *batchLedger) judge(epoch uint16, entry uint64, id series.BatchID, timeMs int64) batchVerdict {
	if l.next < len(l.verdicts) {
		return l.verdicts[l.next]
	}
	if !l.begun || epoch != l.epoch {
		l.past = append(l.past, batchSnapshot{from: l.changed, until: entry, encoded: l.table.encode()})
		if len(l.past) > batchPastMax {
			l.past = slices.Delete(l.past, 1, 2)
		}
		l.begun, l.epoch = true, epoch
	}
	l.changed = entry
	return l.table.judge(id, timeMs)
}

// settle ends what judge began. A batch that was refused is not remembered, so
// that its repetition is refused, too.
func (l *batchLedger) settle(id series.BatchID, verdict batchVerdict, refused bool) {
	if l.next == len(l.verdicts) {
		if verdict == batchFresh && !refused {
			l.table.note(id)
		}
		l.verdicts = append(l.verdicts, verdict)
	}
	l.next++
}

// restart goes back to the first batch of an entry that has stalled.
func (l *batchLedger) restart() { l.next = 0 }

// finish ends an entry.
func (l *batchLedger) finish() { l.verdicts, l.next = l.verdicts[:0], 0 }

// at returns the table's durable form after an entry at which an epoch ended, and
// the last entry that changed it.
func (l *batchLedger) at(entry uint64) (encoded []byte, changed uint64, err error) {
	for i := range l.past {
		p := &l.past[i]
		if entry < p.until {
			if entry < p.from {
				return nil, 0, fmt.Errorf("the batch ids after entry %d are not known any more, only those after %d", entry, p.from)
			}
			return p.encoded, p.from, nil
		}
	}
	if entry < l.changed {
		return nil, 0, fmt.Errorf("the batch ids after entry %d are not known any more, only those after %d", entry, l.changed)
	}
	return l.table.encode(), l.changed, nil
}

// forget drops what no checkpoint at the entry or later needs.
func (l *batchLedger) forget(entry uint64) {
	if l.changed <= entry {
		l.begun = false // the next change keeps what is before it, whatever its epoch
	}
	l.past = slices.DeleteFunc(l.past, func(p batchSnapshot) bool { return p.until <= entry })
}

// applyOnceLocked applies a batch that has an id, unless it was applied before.
// Errors: series.ErrBatchOld and those of applyBatchLocked.
func (s *shard) applyOnceLocked(epoch uint16, entry uint64, b *Batches) error {
	return s.onceLocked(epoch, entry, b.ID, b.TimeMs, func() error { return s.applyBatchLocked(b.Batch) })
}

// applyNamedDeleteLocked applies a delete, unless it was applied before. What is wrong
// with it is told as of the only batch of an entry of samples.
func (s *shard) applyNamedDeleteLocked(epoch uint16, e *Entry) error {
	timeMs, id, body, err := parseNamedDeleteBody(e.Body)
	if err != nil {
		return err
	}
	err = s.onceLocked(epoch, e.Index, id, timeMs, func() error { return s.applyDeleteLocked(e.Index, body) })
	if err == nil || errors.Is(err, ErrStalled) {
		return err
	}
	var refused *BatchError
	return refused.with(0, err)
}

// onceLocked applies what has an id, unless that was applied before.
func (s *shard) onceLocked(epoch uint16, entry uint64, id series.BatchID, timeMs int64, apply func() error) error {
	l := &s.mu.ledger
	verdict := l.judge(epoch, entry, id, timeMs)
	var err error
	switch verdict {
	case batchRepeated:
		s.engine.stats.batchesRepeated.Add(1)
	case batchOld:
		err = fmt.Errorf("%w: counter %d of session %x", series.ErrBatchOld, id.Counter, id.Session)
	case batchFresh:
		if err = apply(); errors.Is(err, ErrStalled) {
			return err
		}
	}
	l.settle(id, verdict, err != nil)
	return err
}
