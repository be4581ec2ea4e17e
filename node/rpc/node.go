package rpc

import (
	"context"
	"io"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Node is what a node does for its callers. All methods are called from many
// goroutines at once. Errors travel by kind, see package wire; that of one shard is
// *wire.NotLeaderError when another node leads it.
type Node interface {
	// Hello describes who the node is.
	Hello() handshake.Hello
	// Admit refuses callers that the handshake's own rules let pass, such as those
	// of retired data folders (wire.ErrRetired).
	Admit(caller handshake.Hello) error

	// Receive takes envelopes of Raft messages from a node, and owns them. It may
	// block, which slows that node down. An error ends the stream.
	Receive(from string, envelopes [][]byte) error
	// HeardClock takes what another node's clock has just said. It does not block.
	HeardClock(from string, timeMs int64)
	// HeardEntries notes what another node knows of kinds of entries now. It does not block.
	HeardEntries(from string, known handshake.Entries)

	// Write starts to write a frame, and does not wait for it. done is called once, from
	// any goroutine and perhaps before Write returns; it never blocks. Frames of one
	// caller may be in work at once, in any order. The frame stays as it is until done is
	// called and the outcomes were asked for; the context ends after that or when its
	// caller gives up.
	Write(ctx context.Context, frame *series.Frame, done func(WriteEnd))
	// Scan sends chunks with Ref to the sink. Within a shard series come in growing
	// order of ids, each as chunks in order of time. Every shard of the request is
	// ended once, after its last chunk.
	Scan(ctx context.Context, request *ScanRequest, sink ScanSink) error
	// Last sends the newest samples to the sink. Every shard is ended once.
	Last(ctx context.Context, request *LastRequest, sink LastSink) error
	// ListSeries sends keys to the sink. Every shard is ended once.
	ListSeries(ctx context.Context, request *SeriesRequest, sink SeriesSink) error
	// ListNames returns sorted names over all shards of the request whose end has no
	// error.
	ListNames(ctx context.Context, request *NamesRequest) (names []string, ends []ShardEnd, err error)
	// History returns what has become of shards since marks, sorted by shard, each of which
	// names one to read; of shards whose end has an error it has nothing.
	History(ctx context.Context, since []scan.Mark) (changes []scan.Change, ends []ShardEnd, err error)
	// TakeSnapshot keeps what shards have, for ScanRequest.Snapshot and NamesRequest.Snapshot, with every write and delete that
	// was answered before the call; the name is empty when all shards have ended with an error.
	TakeSnapshot(ctx context.Context, shards []uint16) (name string, ends []ShardEnd, err error)
	// EndSnapshot ends a snapshot; one that has ended is no error.
	EndSnapshot(ctx context.Context, name string) error
	// WriteExemplars keeps exemplars and returns what became of those of each shard, in their order. Shards grow.
	WriteExemplars(ctx context.Context, parts []ShardExemplars) ([]ExemplarsWritten, error)
	// ListExemplars sends exemplars to the sink, those of a series in order of time. Every shard is ended once.
	ListExemplars(ctx context.Context, request *ExemplarsRequest, sink ExemplarSink) error
	// Delete hides samples and returns what became of each shard.
	Delete(ctx context.Context, request *DeleteRequest) ([]ShardDeleted, error)

	// OpenExport opens the files of a shard: the named export, from offset on, or a
	// new one when the name is empty. wire.ErrNotFound: it is gone, take a new one.
	OpenExport(ctx context.Context, shard uint16, export string, offset int64) (*Export, error)
	// Digest returns the digest of what the node itself has of a shard in a range.
	Digest(ctx context.Context, shard uint16, fromMs, toMs int64) (*Digest, error)
	// ExportRange writes what the node has of a shard in a range, with all entries up to
	// indexMin at least.
	ExportRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64, to io.Writer) error
	// RepairShard has the node fetch a range of a shard from another node.
	RepairShard(ctx context.Context, shard uint16, fromMs, toMs int64) error
	// Report returns the state of the node. Its Hello is filled in by the server.
	Report(ctx context.Context, request *nodev1.ReportRequest) (*nodev1.ReportResponse, error)
	// TransferLeader starts to hand over a shard; an empty node means any.
	TransferLeader(ctx context.Context, shard uint16, toNode string) error
}

// WriteEnd is a frame that a node is done with.
type WriteEnd interface {
	// Outcomes returns what became of each part, in their order. An error stands for all
	// parts. It is called once.
	Outcomes() ([]wire.PartOutcome, error)
}

// Freshness describes how new an answer has to be.
type Freshness struct {
	// StalenessMaxMs is 0 when the answer must have every write that was answered
	// before the request; else any full voter may answer that is at most so far behind.
	StalenessMaxMs uint64
}

// ScanRequest asks for chunks. Selector.Shards is never empty.
type ScanRequest struct {
	scan.Request
	AfterIDs  []series.ID // by index in Selector.Shards: go on after this id; 0: from the start
	Freshness Freshness
	Snapshot  string // that is read, whatever Freshness is; empty: what there is now
}

// LastRequest asks for newest samples. Selector.Shards is never empty.
type LastRequest struct {
	Selector  scan.Selector
	FromMs    int64
	Limits    scan.Limits
	Freshness Freshness
}

// SeriesRequest asks for keys. Selector.Shards is never empty.
type SeriesRequest struct {
	Selector  scan.Selector
	Limit     int // 0: all
	Freshness Freshness
	// Series without samples in [FromMs, ToMs] need not be given: see scan.Dated.
	FromMs, ToMs int64
}

// NamesRequest asks for names of all series of some shards.
type NamesRequest struct {
	Kind                             tickmeshv1.NameKind
	Shards                           []uint16
	Database, Metric, Tag, StartWith string
	Limit                            int // 0: all
	Freshness                        Freshness
	Snapshot                         string // as in ScanRequest
	// Names of series without samples in [FromMs, ToMs] need not be given: see scan.Dated.
	FromMs, ToMs int64
}

// DeleteRequest hides samples in [FromMs, ToMs]. Selector.Shards is never empty.
type DeleteRequest struct {
	ID           series.BatchID // no session: it has none
	Selector     scan.Selector
	FromMs, ToMs int64
}

// ShardEnd is the end of an answer for one shard; Err nil: it has all of it.
type ShardEnd struct {
	Shard uint16
	Err   error
}

// Digest is a digest of a range, which stands for all entries from UnchangedSince to
// AppliedIndex.
type Digest struct {
	AppliedIndex, UnchangedSince uint64
	Bytes                        []byte
}

// ShardDeleted is what a delete did to one shard.
type ShardDeleted struct {
	ShardEnd
	SeriesTouched int64
}

// ScanSink takes the answer to a scan. It is safe for concurrent use, blocks while
// the caller does not read, and copies what it is given. An error of it ends the
// scan.
type ScanSink interface {
	// Chunk takes samples or windows. In an answer to a request for steps they are samples of
	// which the caller makes the values.
	Chunk(c *scan.Chunk) error
	// Steps takes values at the steps that were asked for, or a row of a group. With a Fold,
	// ids count what is given of a shard.
	Steps(c *scan.Chunk) error
	ShardEnd(shard uint16, err error) error
}

// LastSink takes newest samples, as ScanSink takes chunks.
type LastSink interface {
	Point(shard uint16, p scan.Point) error
	ShardEnd(shard uint16, err error) error
}

// SeriesSink takes keys, as ScanSink takes chunks. Total is the number of the
// shard's series that match, those above the limit too.
type SeriesSink interface {
	Key(shard uint16, k series.Key) error
	ShardEnd(shard uint16, total int64, err error) error
}

// Export is a shard at one point of its log as a row of bytes, which stays the same
// while it is opened again and again from other offsets.
type Export struct {
	ID         string // for opening it again
	TotalBytes int64  // of all of it
	Index      uint64 // the last entry that it stands for
	Term       uint64 // of that entry
	Bytes      io.ReadCloser
}
