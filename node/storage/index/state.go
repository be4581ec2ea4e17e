package index

import "fmt"

// State describes how much of the files counts. It belongs into the engine's manifest.
type State struct {
	Count uint32 // series, lost ones included
	Bytes int64  // of the key file
	// Next holds, for each shard from 0 on, the id that its next series gets, so
	// that the id of a series whose record was lost is not given again. Records
	// with other ids are refused.
	Next []uint32
	// Gaps holds how many of these ids never had a record in this table: see MakeGap. Without it there are none.
	Gaps []uint32 `json:",omitempty"`
	// DaysByMonth records that marks of days, in a file for each month, tell of every sample.
	// Without it and Days there may be samples of which they know nothing, as the folder was
	// written by a program that does not keep them.
	DaysByMonth bool `json:",omitempty"`
	// Days is read only: it says the same in folders of programs that keep a file for each day.
	Days *DaysState `json:",omitempty"`
	// Persisted describes what of the files counts that follow from the keys. Without it all is built from these.
	Persisted *PersistedState `json:",omitempty"`
	// Forgotten names the file of the series that are forgotten. Without it none is.
	Forgotten *ForgottenState `json:",omitempty"`
}

// DaysState describes what marks of days in a file for each day tell.
type DaysState struct {
	Coarse []Month `json:",omitempty"` // months of which the days are not known
}

// check refuses what no Sync can have given.
func (s *State) check() error {
	if s.Bytes != 0 && s.Bytes < keyHeaderBytes+recordBytesMin*int64(s.Count) || s.Bytes == 0 && s.Count != 0 {
		return fmt.Errorf("series table: %d series cannot be in %d bytes", s.Count, s.Bytes)
	}
	given := uint64(0)
	for shard, next := range s.Next {
		gaps := s.gapsOf(shard)
		if gaps > next {
			return fmt.Errorf("series table: %d of %d ids of shard %d have no records", gaps, next, shard)
		}
		given += uint64(next - gaps)
	}
	if len(s.Gaps) > len(s.Next) || given > uint64(s.Count) || len(s.Next) > 1<<16 {
		return fmt.Errorf("series table: %d ids in %d shards were given to %d series", given, len(s.Next), s.Count)
	}
	if s.Persisted != nil {
		return s.Persisted.check(s)
	}
	return nil
}

// gapsOf returns how many ids of a shard never had a record.
func (s *State) gapsOf(shard int) uint32 {
	if shard < len(s.Gaps) {
		return s.Gaps[shard]
	}
	return 0
}

func (s *State) noteGaps(shard uint16, gaps uint32) {
	if gaps == 0 {
		return
	}
	for len(s.Gaps) <= int(shard) {
		s.Gaps = append(s.Gaps, 0)
	}
	s.Gaps[shard] = gaps
}
