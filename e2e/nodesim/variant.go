package nodesim

import "github.com/tickmesh/tickmesh/node/storage"

// Variant leaves out a rule that a node needs. Each must be caught.
type Variant uint8

// The variants. Sound leaves nothing out.
const (
	Sound              Variant = iota
	EntriesNotSynced           // loop: entries are acknowledged before they are durable
	EpochStale                 // loop: entries are applied with an epoch that has ended
	TrimToCheckpoint           // recovery: the log goes though groups still count on it
	StatesSkipped              // recovery: some states of groups are not read
	UncommittedApplied         // recovery: what is in the log is taken for committed
	SwapFailureIgnored         // files: an installation that broke off is taken for done
	variants
)

// String returns the variant's name.
func (v Variant) String() string {
	return [...]string{"Sound", "EntriesNotSynced", "EpochStale", "TrimToCheckpoint", "StatesSkipped", "UncommittedApplied", "SwapFailureIgnored"}[v]
}

// breakRecord returns a record as a broken recovery reads it; nil: not at all.
func (w *world) breakRecord(record []byte) []byte {
	e, err := storage.ParseEntry(record)
	switch {
	case err != nil:
	case w.is(StatesSkipped) && e.Kind == storage.EntryGroupState && w.chance(2):
		return nil
	case w.is(UncommittedApplied) && e.Kind != storage.EntryGroupState && e.Gap > 0:
		e.Gap = 0
		return append(e.AppendHeader(nil), e.Body...)
	}
	return record
}
