package index

import (
	"fmt"
	"strconv"
)

// PersistedState describes which files of persisted series count, and how much of them.
type PersistedState struct {
	Offsets uint32      `json:",omitempty"` // chunks of the file of offsets
	IDs     uint32      `json:",omitempty"` // chunks of the file of ids
	Table   *TableState `json:",omitempty"`
	Parts   []PartState `json:",omitempty"` // in the order of their series
	Files   uint64      `json:",omitempty"` // numbers given to files
}

// TableState is a persisted hash table: of the series below Count.
type TableState struct {
	File  uint64
	Count uint32
}

// PartState is the file of a part: of the series from From to To (excluded).
type PartState struct {
	File     uint64
	From, To uint32
}

// check refuses what no Sync can have given.
func (s *PersistedState) check(state *State) error {
	// Of ids there may be more than series: gaps have none.
	ok := uint64(s.Offsets)*offsetChunk <= uint64(state.Count) && s.IDs <= countMax/idChunkEntries
	ok = ok && (s.Table == nil || s.Table.Count <= state.Count)
	end := uint32(0)
	for _, p := range s.Parts {
		ok = ok && p.From >= end && p.To > p.From && p.To <= state.Count
		end = p.To
	}
	if !ok {
		return fmt.Errorf("series table: %+v is not persisted of %d series", *s, state.Count)
	}
	return nil
}

// names returns the files of tables and parts that a state counts.
func (s *PersistedState) names() (names []string) {
	if s == nil {
		return nil
	}
	if s.Table != nil {
		names = append(names, tableFile(s.Table.File))
	}
	for _, p := range s.Parts {
		names = append(names, partFile(p.File))
	}
	return names
}

func tableFile(n uint64) string { return tablePrefix + strconv.FormatUint(n, 10) }

func partFile(n uint64) string { return partPrefix + strconv.FormatUint(n, 10) }
