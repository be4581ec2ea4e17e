package index

import "github.com/tickmesh/tickmesh/api/series"

// Stats are figures for metrics. Bytes are of memory unless they say otherwise.
type Stats struct {
	Series         uint32  // lost ones included
	Used           float64 // of what there can be of local ids, of ids of a shard and of bytes of keys: the largest share
	SeriesLost     int64   // whose records were damaged
	Forgotten      int64   // series that are forgotten
	ForgottenBytes int64   // of the records of forgotten series
	Dropped        int64   // of them whose records are
	KeyBytesGiven  int64   // of dropped records, that were given back to the disk since the start
	KeyBytesHeld   int64   // of the disk, by the key file
	Damages        int64   // found while opening, and each one that was met since
	KeyFileBytes   int64   // on disk, and mapped
	PersistedBytes int64   // of files of persisted series: on disk, and mapped
	PersistErrors  int64   // times that one of them could not be written
	Rebuilt        int64   // times that something of them was read otherwise than before, and was built again
	TailBytes      int64   // the block of the key file that is being filled
	OffsetBytes    int64   // local id → place in the key file
	ShardBytes     int64   // (shard, id) → local id
	TableBytes     int64   // hash table
	TableLoad      float64 // of what is in memory
	ActivityBytes  int64
	Months, Days   int   // that have marks
	MonthsCoarse   int   // of which the days are not known
	PartBytes      int64 // dictionary and postings
	Parts          int
	Values         int    // of tags; one that several parts have counts in each
	Metrics        int    // in the same way
	Unindexed      uint32 // series that no part has yet
}

// Stats returns the figures of the moment.
func (x *Index) Stats() Stats {
	s := Stats{
		SeriesLost: x.lost.Load(), Damages: x.damages.Load() + x.keys.damages.Load(), TailBytes: blockBytes,
	}
	activity := x.activity.stats()
	s.ActivityBytes, s.Months, s.MonthsCoarse, s.Days = activity.bytes, activity.months, activity.monthsCoarse, activity.days
	for _, p := range *x.parts.parts.Load() {
		s.Parts++
		s.PartBytes += p.bytes()
		s.Values += p.values
		s.Metrics += len(p.metrics)
	}
	end := x.parts.end()
	s.Series = x.keys.count.Load() // after end, which is not beyond it then
	s.Unindexed = s.Series - end
	x.keys.mu.Lock()
	s.KeyFileBytes = x.keys.bytesLocked()
	x.keys.mu.Unlock()
	if chunks := x.keys.offsets.Load(); chunks != nil {
		persisted := int64(x.persister.offsets.count.Load())
		s.OffsetBytes = (int64(len(*chunks))-persisted)*int64(offsetsBytes) + int64(len(*chunks))*16 + persisted*offsetsSealBytes
		s.PersistedBytes = persisted*x.persister.offsets.bytes + int64(x.persister.ids.count.Load())*x.persister.ids.bytes
	}
	s.Used = max(float64(s.Series)/countMax, float64(s.KeyFileBytes)/(slotPlaceMask+1))
	x.shards.each(func(_ uint16, ids *shardIDs) {
		s.ShardBytes += ids.bytes()
		s.Used = max(s.Used, float64(ids.next.Load())/(float64(series.IDMax)+1))
	})
	for _, p := range *x.parts.parts.Load() {
		s.PersistedBytes += p.held.bytes
	}
	if t := x.table.persisted.Load(); t != nil {
		s.PersistedBytes += t.held.bytes
		s.TableBytes += t.seal.memory()
	}
	s.PersistErrors, s.Rebuilt = x.persister.failures.Load(), x.rebuilt.Load()
	s.Forgotten, s.ForgottenBytes = x.forgets.stats()
	s.Dropped = x.keys.dropped.ones.Load()
	x.forgets.mu.Lock()
	s.KeyBytesGiven = x.forgets.given
	s.KeyBytesHeld, _ = x.keys.file.Held()
	x.forgets.mu.Unlock()
	used, slots := x.table.size()
	s.TableBytes += int64(slots) * 8
	if slots > 0 {
		s.TableLoad = float64(used) / float64(slots)
	}
	return s
}
