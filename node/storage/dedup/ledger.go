package dedup

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// Ledger is a shard's table of batch ids with what checkpoints need of its past.
//
// A checkpoint names a position of the log, and entries behind it are replayed
// over pages that may know them already. That is harmless for samples, but a table
// that knew them would have their batches skipped, whose samples may be nowhere but
// in the log. So a checkpoint stores the table as it was at its last entry. That is
// where an epoch ended: the ledger keeps the table's form before the first change
// of each epoch.
type Ledger struct {
	table   Table
	changed uint64     // the last entry that changed the table
	epoch   uint16     // of that entry
	begun   bool       // there was one since the start
	past    []snapshot // oldest first

	// What was decided about the batches of the present entry. When it stalls it is
	// applied again from its beginning, and its own ids must not stop it.
	verdicts []Verdict
	next     int // the next one of them
}

// snapshot is the table as it was from one entry until before another.
type snapshot struct {
	from, until uint64
	encoded     []byte
}

// pastMax bounds the snapshots. There are two, more only while checkpoints
// fail. Of too many the second goes: the first is that of the last checkpoint.
const pastMax = 8

// NewLedger returns the ledger of a shard whose table is as it was after its last entry.
func NewLedger(table Table, applied uint64) Ledger {
	return Ledger{table: table, changed: applied}
}

// Now returns the table's durable form after the last entry.
func (l *Ledger) Now() []byte { return l.table.Encode() }

// Sessions returns the number of sessions that are remembered.
func (l *Ledger) Sessions() int { return len(l.table.slots) }

// Judge reports whether the next batch of an entry is to be applied. Record follows
// when it is.
func (l *Ledger) Judge(epoch uint16, entry uint64, id series.BatchID, timeMs int64) Verdict {
	if l.next < len(l.verdicts) {
		return l.verdicts[l.next]
	}
	if !l.begun || epoch != l.epoch {
		l.past = append(l.past, snapshot{from: l.changed, until: entry, encoded: l.table.Encode()})
		if len(l.past) > pastMax {
			l.past = slices.Delete(l.past, 1, 2)
		}
		l.begun, l.epoch = true, epoch
	}
	l.changed = entry
	return l.table.judge(id, timeMs)
}

// Record ends what judge began. A batch that was refused is not remembered, so
// that its repetition is refused, too.
func (l *Ledger) Record(id series.BatchID, verdict Verdict, refused bool) {
	if l.next == len(l.verdicts) {
		if verdict == Fresh && !refused {
			l.table.note(id)
		}
		l.verdicts = append(l.verdicts, verdict)
	}
	l.next++
}

// Restart returns to the first batch of an entry that has stalled.
func (l *Ledger) Restart() { l.next = 0 }

// Finish ends an entry.
func (l *Ledger) Finish() { l.verdicts, l.next = l.verdicts[:0], 0 }

// At returns the table's durable form after an entry at which an epoch ended.
func (l *Ledger) At(entry uint64) (Form, error) {
	for i := range l.past {
		p := &l.past[i]
		if entry < p.until {
			if entry < p.from {
				return Form{}, fmt.Errorf("the batch ids after entry %d are not known any more, only those after %d", entry, p.from)
			}
			return Form{Encoded: p.encoded, Entry: p.from}, nil
		}
	}
	if entry < l.changed {
		return Form{}, fmt.Errorf("the batch ids after entry %d are not known any more, only those after %d", entry, l.changed)
	}
	return Form{Encoded: l.table.Encode(), Entry: l.changed}, nil
}

// Forget drops what no checkpoint at the entry or later needs.
func (l *Ledger) Forget(entry uint64) {
	if l.changed <= entry {
		l.begun = false // the next change keeps what is before it, whatever its epoch
	}
	l.past = slices.DeleteFunc(l.past, func(p snapshot) bool { return p.until <= entry })
}
