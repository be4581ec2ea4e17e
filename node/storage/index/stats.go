package index

// Stats are figures for metrics. Bytes are of memory unless they say otherwise.
type Stats struct {
	Series        uint32 // lost ones included
	SeriesLost    int64  // whose records were damaged
	Damages       int64  // found while opening, and each one that was met since
	KeyFileBytes  int64  // on disk, and mapped
	TailBytes     int64  // the block of the key file that is being filled
	OffsetBytes   int64  // local id → place in the key file
	ShardBytes    int64  // (shard, id) → local id
	TableBytes    int64  // hash table
	TableLoad     float64
	ActivityBytes int64
	Months, Days  int   // that have marks
	MonthsCoarse  int   // of which the days are not known
	PartBytes     int64 // dictionary and postings
	Parts         int
	Values        int    // of tags; one that several parts have counts in each
	Metrics       int    // in the same way
	Unindexed     uint32 // series that no part has yet
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
		s.OffsetBytes = int64(len(*chunks)) * (offsetChunk*6 + 8)
	}
	x.shards.each(func(_ uint16, ids *shardIDs) { s.ShardBytes += ids.bytes() })
	used, slots := x.table.size()
	s.TableBytes = int64(slots) * 8
	if slots > 0 {
		s.TableLoad = float64(used) / float64(slots)
	}
	return s
}
