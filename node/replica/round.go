package replica

// Kinds of entries that the Host makes itself, or reads. All others are the engine's.
// Their numbers are part of the durable format of the node's log.
const (
	KindEmpty  uint8 = 4  // of a new leader: no body
	KindChange uint8 = 5  // of the configuration: body is a ConfChangeV2 of raftpb
	KindState  uint8 = 16 // not an entry: the record of a GroupState
)

// Round is what has to be done, and in which order: see the package's doc. Its slices
// are used again by the next Ready; the bytes they point to are not.
type Round struct {
	Number    uint64         // grows by one from Round to Round
	States    []GroupState   // to the log, before Appends
	Sync      bool           // States must be fsynced before Advance, in every mode; with Config.SyncLater soon after
	Appends   []Append       // to the log, in order
	Early     []Outgoing     // may be sent before States and Appends are written
	Late      []Outgoing     // only after
	Committed []Committed    // to the appliers, in order, only after
	Reads     []ReadReady    // confirmed
	Failed    []Failure      // proposals and reads that are over
	Prepared  []uint16       // shards whose files may be swapped now, after what Rounds before gave to apply
	Snapshots []SnapshotNeed // this node has to fetch files
}

// Append is an entry for the log. With an index that the log already has it replaces
// that entry and all later ones of the shard.
type Append struct {
	Shard  uint16
	Kind   uint8
	Term   uint64
	Index  uint64
	Commit uint64   // committed as far as known; Index itself in a group with a single voter only
	Parts  [][]byte // the body, in pieces
}

// Outgoing is an envelope for another node's Receive.
type Outgoing struct {
	To    string
	Bytes []byte
}

// Committed is an entry to apply. Entries of KindEmpty and KindChange do nothing but
// move the applied index.
type Committed struct {
	Shard  uint16
	Kind   uint8
	Term   uint64
	Index  uint64
	Parts  [][]byte // the body, in pieces
	Token  uint64   // of Propose; 0: not proposed here, or its proposal has failed
	Copies int      // voters known to have it in their logs, if Token is not 0
}

// ReadReady means that a read may be answered when the engine has applied Index.
type ReadReady struct {
	Shard uint16
	Token uint64
	Index uint64
}

// Failure is the end of a proposal or a read without success.
type Failure struct {
	Shard uint16
	Token uint64
	// Err is a NotLeaderError if nothing was logged, or ErrFate.
	Err error
}

// SnapshotNeed means that the shard's replica here needs files that stand for Index or
// more. It is repeated every few seconds until they are installed.
type SnapshotNeed struct {
	Shard  uint16
	Leader string // node that asked for it; every full voter may have the files
	Index  uint64
}

// reset empties r, keeping its memory.
func (r *Round) reset() {
	clear(r.States)
	clear(r.Appends)
	clear(r.Early)
	clear(r.Late)
	clear(r.Committed)
	clear(r.Failed)
	r.States, r.Sync, r.Appends = r.States[:0], false, r.Appends[:0]
	r.Early, r.Late = r.Early[:0], r.Late[:0]
	r.Committed, r.Reads = r.Committed[:0], r.Reads[:0]
	r.Failed, r.Prepared, r.Snapshots = r.Failed[:0], r.Prepared[:0], r.Snapshots[:0]
}

func (r *Round) empty() bool {
	return len(r.States) == 0 && len(r.Appends) == 0 && len(r.Early) == 0 && len(r.Late) == 0 &&
		len(r.Committed) == 0 && len(r.Reads) == 0 && len(r.Failed) == 0 && len(r.Prepared) == 0 && len(r.Snapshots) == 0
}
