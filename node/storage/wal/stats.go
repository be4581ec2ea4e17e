package wal

import "time"

// Stats is the state of a log at one moment. Counters start at zero with Open.
type Stats struct {
	Files  int   // log files, the one made ahead included
	Spares int   // trimmed files kept for later
	Bytes  int64 // that log files and spares take

	First, Synced, End Position

	Writes       int64 // buffers
	Records      int64
	RecordBytes  int64 // of records with their headers
	BytesWritten int64 // those, end records, and zeros for new files
	Recycled     int64 // files written again instead of made new
	SwitchWaits  int64 // writes that had to wait for a new file
	Syncs        int64
	SyncTime     time.Duration // in all syncs together

	Corruptions  int64 // damaged stretches met by Replay and Record
	CorruptBytes int64
	TornTails    int64 // files that Open cut because records in them were torn
	TornBytes    int64 // cut off by that, of records after the first torn one

	AheadErr  error // why no file could be made ahead; nil when there is one
	BrokenErr error // why the log takes no more writes
}

// Stats returns the present state.
func (l *Log) Stats() Stats {
	c := &l.counters
	s := Stats{
		Synced: l.Synced(), Writes: c.writes.Load(), Records: c.records.Load(),
		RecordBytes: c.recordBytes.Load(), BytesWritten: c.bytesWritten.Load(),
		Recycled: c.recycled.Load(), SwitchWaits: c.switchWaits.Load(),
		Syncs: c.syncs.Load(), SyncTime: time.Duration(c.syncNanos.Load()),
		Corruptions: c.corruptions.Load(), CorruptBytes: c.corruptBytes.Load(),
		TornTails: c.tornTails.Load(), TornBytes: c.tornBytes.Load(),
		Spares: int(c.spares.Load()),
	}
	s.Bytes = int64(s.Spares) * l.options.FileBytes
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Files, s.First, s.End = len(l.mu.files), l.firstLocked(), l.mu.end
	for _, f := range l.mu.files {
		s.Bytes += f.length
	}
	s.AheadErr, s.BrokenErr = l.mu.aheadErr, l.mu.broken
	return s
}
