package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
)

// Files fetches the files of shards from other nodes.
type Files interface {
	// Fetch gives what the node's OpenShardFiles gives. The reader goes on by itself
	// after a lost connection, as long as that is possible. If it is a Progressing, the
	// node's Groups tell how far it is.
	Fetch(ctx context.Context, node string, shard uint16) (io.ReadCloser, error)
}

// Progressing says how far a stream has come; any goroutine may ask.
type Progressing interface {
	// Progress gives the bytes that have arrived, those in all, and how often the stream
	// had to go on after a failure.
	Progress() (doneBytes, totalBytes, resumed int64)
}

// FetchProgress is how far the files of a shard have come.
type FetchProgress struct {
	FromNode              string
	DoneBytes, TotalBytes int64
	BytesPerSecond        int64 // since the beginning
}

// ShardFiles is a shard at one entry of its log, as a row of bytes: uvarint length of
// the meta, meta (replica.SnapshotMeta), the engine's export. It must be closed.
type ShardFiles struct {
	export *storage.Export
	head   []byte
	Index  uint64
	Term   uint64
}

const metaBytesMax = 1 << 16

// OpenShardFiles pins the state of a shard. Errors: series.ErrUnavailable when there is
// no replica that could be copied; those of the disk.
func (n *Node) OpenShardFiles(shard uint16) (*ShardFiles, error) {
	const attempts = 3 // the log may be shortened beyond the export meanwhile
	var err error
	for range attempts {
		var f *ShardFiles
		if f, err = n.openShardFiles(shard); !errors.Is(err, replica.ErrTruncated) {
			return f, err
		}
	}
	return nil, err
}

func (n *Node) openShardFiles(shard uint16) (*ShardFiles, error) {
	export, err := n.engine.ExportShard(shard)
	if err != nil {
		return nil, err
	}
	var meta replica.SnapshotMeta
	failed := n.loop.queue.do(func() { meta, err = n.loop.host.SnapshotMeta(shard, export.Index) })
	if err = errors.Join(err, failed); err != nil {
		return nil, errors.Join(err, export.Close())
	}
	encoded := meta.AppendTo(nil)
	head := append(binary.AppendUvarint(nil, uint64(len(encoded))), encoded...)
	return &ShardFiles{export: export, head: head, Index: meta.Index, Term: meta.Term}, nil
}

// Size gives the number of bytes.
func (f *ShardFiles) Size() int64 { return int64(len(f.head)) + f.export.Size() }

// OpenAt gives the bytes from an offset on, to one goroutine.
func (f *ShardFiles) OpenAt(offset int64) io.Reader {
	if head := int64(len(f.head)); offset < head {
		return io.MultiReader(bytes.NewReader(f.head[offset:]), f.export.OpenAt(0))
	}
	return f.export.OpenAt(offset - int64(len(f.head)))
}

// Close lets go of the pinned files.
func (f *ShardFiles) Close() error { return f.export.Close() }

// Bounds of the shards whose files are fetched at once, and of those that wait for it.
const (
	fetchesMax     = 2
	fetchesWaiting = 8
)

// fetcher fetches files for replicas that need them. Needs are told again until they
// are met.
type fetcher struct {
	errands[replica.SnapshotNeed]
	running struct {
		sync.Mutex
		byShard map[uint16]*fetching
	}
}

// fetching is a stream of files on its way.
type fetching struct {
	from   string
	start  time.Time
	stream Progressing
}

func (f *fetcher) init() {
	f.errands.init(fetchesWaiting, func(n *replica.SnapshotNeed) uint16 { return n.Shard })
	f.running.byShard = map[uint16]*fetching{}
}

// began notes a stream; the caller tells when it is over.
func (f *fetcher) began(shard uint16, running *fetching) (over func()) {
	f.running.Lock()
	defer f.running.Unlock()
	f.running.byShard[shard] = running
	return func() {
		f.running.Lock()
		defer f.running.Unlock()
		delete(f.running.byShard, shard)
	}
}

// progress gives how far the files of a shard are at a moment; nil: none are fetched.
func (f *fetcher) progress(shard uint16, now time.Time) *FetchProgress {
	f.running.Lock()
	running := f.running.byShard[shard]
	f.running.Unlock()
	if running == nil {
		return nil
	}
	p := &FetchProgress{FromNode: running.from}
	p.DoneBytes, p.TotalBytes, _ = running.stream.Progress()
	if took := now.Sub(running.start); took > 0 {
		p.BytesPerSecond = int64(float64(p.DoneBytes) / took.Seconds())
	}
	return p
}

// fetchFiles meets one need after the other until the node closes.
func (n *Node) fetchFiles(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case need := <-n.fetcher.wants:
			start := n.options.Clock()
			got, err := n.fetchShard(ctx, need)
			if err == nil {
				n.logger.Info("the files of a shard were fetched", "shard", need.Shard, "from", need.Leader, "index", got.Index,
					"bytes", got.Bytes, "series", got.Series, "took_ms", n.options.Clock().Sub(start).Milliseconds())
			} else if ctx.Err() == nil {
				n.logger.Warn("the files of a shard could not be fetched; they will be asked for again", "shard", need.Shard, "from", need.Leader, "error", err)
			}
			n.fetcher.done(need.Shard)
		}
	}
}

// installation is files that are on their way into a shard.
type installation struct {
	meta     replica.SnapshotMeta
	witness  bool               // it keeps no data: the meta is all it needs
	cancel   context.CancelFunc // when the replica ends
	prepared chan struct{}      // closed when the log says that files are swapped
	told     bool
}

func (i *installation) tellPrepared() {
	if !i.told {
		i.told = true
		close(i.prepared)
	}
}

// fetchShard replaces the shard's data by what another node has, and tells the host.
func (n *Node) fetchShard(ctx context.Context, need replica.SnapshotNeed) (got storage.ShardExport, err error) {
	if n.options.Files == nil {
		return got, errors.New("this node has no way to fetch files")
	}
	installing, cancel := context.WithCancel(ctx) // ends with the replica, too
	defer cancel()
	opened, err := n.options.Files.Fetch(installing, need.Leader, need.Shard)
	if err != nil {
		return got, err
	}
	if stream, ok := opened.(Progressing); ok {
		defer n.fetcher.began(need.Shard, &fetching{from: need.Leader, start: n.options.Clock(), stream: stream})()
	}
	stream := newAttended(opened, cancel)
	defer stream.Close()
	in := bufio.NewReaderSize(stream, 256<<10)
	i := &installation{cancel: cancel, prepared: make(chan struct{})}
	if i.meta, err = readMeta(in); err != nil {
		return got, err
	}
	failed := n.loop.queue.do(func() { err = n.loop.prepare(need.Shard, i) })
	if err = errors.Join(err, failed); err != nil {
		return got, err
	}
	select { // the log has to say first that files are swapped
	case <-i.prepared:
		err = n.loop.drain() // nothing of the shard is on its way to the engine then
	case <-installing.Done():
		err = installing.Err()
	}
	if err == nil && !i.witness {
		got, err = n.engine.InstallShard(installing, need.Shard, uint64(n.log.End()), in)
	}
	if err == nil && !i.witness && got.Index != i.meta.Index {
		err = fmt.Errorf("%w: files of entry %d with a meta of entry %d", replica.ErrSnapshot, got.Index, i.meta.Index)
	}
	failed = n.insist(ctx, func() { err = n.loop.installed(need.Shard, i, err) })
	return got, errors.Join(err, failed)
}

// insist has the loop run a command, also when the disk is full for a while. An error
// says that it never will: the node closes, or its log is broken.
func (n *Node) insist(ctx context.Context, run func()) error {
	for {
		err := n.loop.queue.do(run)
		if err == nil || ctx.Err() != nil || n.loop.refusals.broken.Load() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(spaceRetry):
		}
	}
}

// prepare begins an installation.
func (l *loop) prepare(shard uint16, i *installation) error {
	if l.installing[shard] != nil {
		return replica.ErrBusy
	}
	status, err := l.host.Status(shard)
	if err != nil {
		return err
	}
	// The library would keep such a log, and what it has beyond the files. Those entries
	// stand before the end of the log, from which on a start applies entries to new files.
	if i.meta.Index <= status.Last && l.places.term(shard, i.meta.Index) == i.meta.Term {
		return fmt.Errorf("%w: the log has entry %d already", replica.ErrSnapshot, i.meta.Index)
	}
	if err := l.host.PrepareSnapshot(shard, i.meta); err != nil {
		return err
	}
	i.witness = status.Role == shardmap.Witness
	l.installing[shard] = i
	return nil
}

// installed ends an installation, which err says has failed.
func (l *loop) installed(shard uint16, i *installation, err error) error {
	delete(l.installing, shard)
	if l.cleaning[shard] {
		l.onRemoved(shard)
		return errors.Join(err, errReplaced)
	}
	if err != nil {
		l.host.AbortSnapshot(shard)
		return err
	}
	if !i.witness {
		l.dispatched[shard] = i.meta.Index
		l.applied[shard].advance(i.meta.Index)
	}
	return l.host.InstallSnapshot(shard, i.meta)
}

// attended is a stream that is given up when nothing comes for long.
type attended struct {
	io.ReadCloser
	timer *time.Timer
}

// streamWait is how long nothing may come.
const streamWait = time.Minute

func newAttended(stream io.ReadCloser, give func()) *attended {
	a := &attended{ReadCloser: stream, timer: time.AfterFunc(streamWait, give)}
	a.timer.Stop()
	return a
}

// Read implements io.Reader.
func (a *attended) Read(p []byte) (int, error) {
	a.timer.Reset(streamWait)
	defer a.timer.Stop()
	return a.ReadCloser.Read(p)
}

func readMeta(in *bufio.Reader) (replica.SnapshotMeta, error) {
	size, err := binary.ReadUvarint(in)
	if err == nil && size > metaBytesMax {
		err = fmt.Errorf("%w: a meta of %d bytes", replica.ErrState, size)
	}
	if err != nil {
		return replica.SnapshotMeta{}, err
	}
	encoded := make([]byte, size)
	if _, err := io.ReadFull(in, encoded); err != nil {
		return replica.SnapshotMeta{}, err
	}
	return replica.ParseSnapshotMeta(encoded)
}
