package sim

import (
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// Variant leaves out a rule that the cluster needs. Each must be caught.
type Variant uint8

// The variants. Sound leaves nothing out.
const (
	Sound                Variant = iota
	ReadUnconfirmed              // a leader answers reads without ReadIndex
	AnswerEarly                  // a write is answered when it is proposed
	ApplyEarly                   // a leader applies what it appends
	VoteWithoutTail              // after a power cut in interval mode a node goes on with its raft ids
	RaftIDTwice                  // a node forgets which of its raft ids are spent
	BatchIDsInMemory             // the table of batch ids is not part of the applied state
	WitnessServes                // a witness answers reads from what it has
	DropOnMap                    // data goes as soon as the map does not name it, which a deposed leader may have written
	EpochsGoBack                 // an older map is adopted
	LateBeforeSync               // messages that rest on the log are sent before it is written
	DeleteWithoutID              // a repeated delete is a new one
	BatchIDsAhead                // batch ids in a checkpoint are newer than its applied index
	ReadBeforeApplied            // a confirmed read does not wait for what is applied
	EraIgnored                   // a node takes ids of series from an era that has ended
	DeleteUnconfirmed            // a delete looks for its series without ReadIndex
	StatesNotHeld                // groups go on before their states are durable
	EpochUntold                  // a map that gives raft ids is adopted before the store knows that it was seen
	EntriesNotSynced             // loop: entries are acknowledged before they are durable
	StatesNotSynced              // loop: groups go on though their states are not synced with a round
	EpochStale                   // loop: entries are applied with an epoch that has ended
	EpochNotDrained              // loop: an epoch begins before the entries of the last one are applied
	CheckpointAheadOfLog         // recovery: pages are durable before the log is
	TrimToCheckpoint             // recovery: the log goes though groups still count on it
	StatesSkipped                // recovery: some states of groups are not read
	UncommittedApplied           // recovery: what is in the log is taken for committed
	SwapFailureIgnored           // files: an installation that broke off is taken for done
	SwapNotDrained               // files: they are swapped while entries are on their way to the engine
	SwapUnprepared               // files: they are swapped before the log says so
	FilesBeforeLog               // files: entries of a replica that is no more are applied to new files
	DropUndrained                // files: data goes before it is durable that its replica has ended
	ForgetLate                   // series are forgotten though other entries came before that may have brought samples
	variants
)

// String returns the variant's name.
func (v Variant) String() string {
	return [...]string{"Sound", "ReadUnconfirmed", "AnswerEarly", "ApplyEarly", "VoteWithoutTail", "RaftIDTwice",
		"BatchIDsInMemory", "WitnessServes", "DropOnMap", "EpochsGoBack", "LateBeforeSync",
		"DeleteWithoutID", "BatchIDsAhead", "ReadBeforeApplied", "EraIgnored", "DeleteUnconfirmed",
		"StatesNotHeld", "EpochUntold", "EntriesNotSynced", "StatesNotSynced", "EpochStale", "EpochNotDrained",
		"CheckpointAheadOfLog", "TrimToCheckpoint", "StatesSkipped", "UncommittedApplied", "SwapFailureIgnored",
		"SwapNotDrained", "SwapUnprepared", "FilesBeforeLog", "DropUndrained", "ForgetLate"}[v]
}

// breakRecord returns a record as a broken recovery reads it; nil: not at all.
func (w *World) breakRecord(record []byte) []byte {
	e, err := entry.Parse(record)
	switch {
	case err != nil:
	case w.is(StatesSkipped) && e.Kind == entry.GroupState && w.chance(2):
		return nil
	case w.is(UncommittedApplied) && e.Kind != entry.GroupState && e.Gap > 0:
		e.Gap = 0
		return append(e.AppendHeader(nil), e.Body...)
	}
	return record
}

// forgottenBefore returns, by shard, the position up to which the variant RaftIDTwice forgets
// that there were replicas whose data is gone.
func (p *process) forgottenBefore() []wal.Position {
	forget := make([]wal.Position, p.world.options.Shards)
	if !p.world.is(RaftIDTwice) {
		return forget
	}
	err := p.log.Replay(0, func(_, end wal.Position, record []byte) error {
		e, err := entry.Parse(record)
		if err == nil && e.Kind == entry.GroupState {
			state, err := replica.ParseGroupState(e.Body)
			if err == nil && state.Removed && p.engine.AppliedIndexes()[e.Shard] == 0 {
				forget[e.Shard] = end
			}
		}
		return nil
	})
	if err != nil {
		p.fail(0, "read the log: %v", err)
	}
	return forget
}
