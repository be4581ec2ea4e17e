// Package transfer moves the data of whole shards: it sends their files to other nodes,
// fetches and installs those that replicas here need, drops those of replicas that have
// ended, and asks other members before a replica ends. It decides nothing about groups:
// the node's loop tells it what to do, and is told when that is done.
package transfer

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/node/commit"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// Loop is what a Service asks of the loop that drives the groups.
type Loop interface {
	// SnapshotMeta returns what goes with the files of a shard that have all entries up to
	// index. Errors: those of replica.Host.SnapshotMeta.
	SnapshotMeta(shard uint16, index uint64) (replica.SnapshotMeta, error)
	// BeginSwap records in the log that the shard's files are swapped. A witness keeps no data:
	// the meta is all that it needs. cancel is called when the replica ends before EndSwap.
	BeginSwap(shard uint16, meta replica.SnapshotMeta, cancel func()) (witness bool, err error)
	// AwaitSwap waits until the log says so, and nothing of the shard is on its way to the
	// engine.
	AwaitSwap(ctx context.Context, shard uint16) error
	// EndSwap ends what BeginSwap began: the files are in place, or failed says why not. It
	// insists until the loop has heard of it, or never will, and returns why the replica does
	// not go on from the files.
	EndSwap(ctx context.Context, shard uint16, failed error) error
	// AwaitRemoved waits until it is durable that the shard's replica has ended, and nothing
	// of the shard is on its way to the engine.
	AwaitRemoved(shard uint16) error
	// Dropped is called when the data of a removed replica is gone.
	Dropped(shard uint16) error
	// Left is called when the group goes on without a replica.
	Left(q *commit.Question) error
	// LogEnd returns the position of the end of the log: what stands before it is of other
	// replicas than the files that are installed now.
	LogEnd() uint64
}

// Engine is what a Service needs of the storage engine.
type Engine interface {
	Shards() int
	ExportShard(shard uint16) (*transfer.Export, error)
	InstallShard(ctx context.Context, shard uint16, logPosition uint64, stream io.Reader) (transfer.ShardExport, error)
	DropShard(shard uint16, logPosition uint64) error
}

// Files fetches the files of shards from other nodes.
type Files interface {
	// Fetch returns what the node's Open returns. The reader goes on by itself after a lost
	// connection, as long as that is possible. If it is a Progressing, Progress tells how far
	// it is.
	Fetch(ctx context.Context, node string, shard uint16) (io.ReadCloser, error)
}

// Progressing describes how far a stream has come; any goroutine may ask.
type Progressing interface {
	// Progress returns the bytes that have arrived, those in all, and how often the stream
	// had to go on after a failure.
	Progress() (doneBytes, totalBytes, resumed int64)
}

// GroupClient asks other nodes about their replicas.
type GroupClient interface {
	// Group asks a node for its replica of a shard. It returns an error if that is unknown.
	Group(ctx context.Context, node string, shard uint16) (commit.GroupView, error)
}

// Options configure a Service.
type Options struct {
	Node   string // the id of this node
	Engine Engine
	Loop   Loop
	// Files reaches the files of other nodes. Nil: none can be fetched.
	Files Files
	// GroupClient reaches other members of groups. Nil: nobody is asked.
	GroupClient GroupClient
	Clock       func() time.Time
	Logger      *slog.Logger
}

// Service moves the data of one node's shards. All methods may be called from many
// goroutines.
type Service struct {
	options   Options
	fetches   workQueue[replica.SnapshotNeed]
	running   running
	drops     chan uint16
	questions workQueue[commit.Question]
}

// New returns a Service that does nothing by itself before Run.
func New(o Options) *Service {
	s := &Service{options: o, drops: make(chan uint16, o.Engine.Shards())}
	s.fetches.init(fetchesWaiting, func(n *replica.SnapshotNeed) uint16 { return n.Shard })
	s.questions.init(questionsMax, func(q *commit.Question) uint16 { return q.Shard })
	s.running.byShard = map[uint16]*fetching{}
	return s
}

// Run fetches, drops and asks until ctx ends.
func (s *Service) Run(ctx context.Context) {
	var workers sync.WaitGroup
	workers.Go(func() { s.dropRemoved(ctx) })
	for range questionsAsked {
		workers.Go(func() { s.askMembers(ctx) })
	}
	for range fetchesMax {
		workers.Go(func() { s.fetchFiles(ctx) })
	}
	workers.Wait()
}

// Fetch schedules the fetching of files that a replica needs. It does not block; needs are
// told again until they are met.
func (s *Service) Fetch(need replica.SnapshotNeed) { s.fetches.enqueue(need) }

// Fetching returns the number of shards whose files are fetched, or wait for it.
func (s *Service) Fetching() int { return s.fetches.count() }

// Drop schedules the dropping of a removed replica's data. It does not block: each shard
// waits at most once, as it gets no new replica before its data is gone.
func (s *Service) Drop(shard uint16) { s.drops <- shard }

// Ask schedules a question about a replica. It does not block; questions come again while
// they have no answer.
func (s *Service) Ask(q commit.Question) { s.questions.enqueue(q) }
