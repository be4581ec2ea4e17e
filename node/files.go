package node

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
)

// Files fetches the files of shards from other nodes.
type Files interface {
	// Fetch gives what the node's OpenShardFiles gives. The reader goes on by itself
	// after a lost connection, as long as that is possible.
	Fetch(ctx context.Context, node string, shard uint16) (io.ReadCloser, error)
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
	export, err := n.Engine.ExportShard(shard)
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
		return io.MultiReader(&sliceReader{f.head[offset:]}, f.export.OpenAt(0))
	}
	return f.export.OpenAt(offset - int64(len(f.head)))
}

// Close lets go of the pinned files.
func (f *ShardFiles) Close() error { return f.export.Close() }

type sliceReader struct{ rest []byte }

func (r *sliceReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

const (
	fetchesMax = 2
)

// fetcher fetches files for replicas that need them.
type fetcher struct {
	wants chan replica.SnapshotNeed
	mu    struct {
		sync.Mutex
		underWay map[uint16]bool
	}
}

func (f *fetcher) init() {
	f.wants = make(chan replica.SnapshotNeed, fetchesMax)
	f.mu.underWay = map[uint16]bool{}
}

// want notes a need, unless as many as may are being met: it will be told again.
func (f *fetcher) want(need replica.SnapshotNeed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.underWay[need.Shard] || len(f.mu.underWay) >= fetchesMax {
		return
	}
	select {
	case f.wants <- need:
		f.mu.underWay[need.Shard] = true
	default:
	}
}

func (f *fetcher) done(shard uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.underWay, shard)
}

// fetchFiles meets one need after the other until the node closes.
func (n *Node) fetchFiles() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.stopped.Go(func() { <-n.stop; cancel() })
	for {
		select {
		case <-n.stop:
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

// fetchShard replaces the shard's data by what the leader has, and tells the host.
func (n *Node) fetchShard(ctx context.Context, need replica.SnapshotNeed) (got storage.ShardExport, err error) {
	if n.options.Files == nil {
		return got, errors.New("this node has no way to fetch files")
	}
	stream, err := n.options.Files.Fetch(ctx, need.Leader, need.Shard)
	if err != nil {
		return got, err
	}
	defer stream.Close()
	in := bufio.NewReaderSize(stream, 256<<10)
	meta, err := readMeta(in)
	if err != nil {
		return got, err
	}
	prepared := make(chan struct{})
	failed := n.loop.queue.do(func() {
		if err = n.loop.host.PrepareSnapshot(need.Shard, meta); err == nil {
			n.loop.preparing[need.Shard] = prepared
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return got, err
	}
	select { // the log has to say first that files are swapped
	case <-prepared:
		err = n.loop.drain() // nothing of the shard is on its way to the engine then
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		got, err = n.Engine.InstallShard(ctx, need.Shard, uint64(n.log.End()), in)
	}
	if err == nil && got.Index != meta.Index {
		err = fmt.Errorf("%w: files of entry %d with a meta of entry %d", replica.ErrSnapshot, got.Index, meta.Index)
	}
	failed = n.loop.queue.do(func() {
		delete(n.loop.preparing, need.Shard)
		if err != nil {
			n.loop.host.AbortSnapshot(need.Shard)
			return
		}
		n.loop.dispatched[need.Shard] = meta.Index
		n.loop.applied[need.Shard].value.Store(meta.Index)
		err = n.loop.host.InstallSnapshot(need.Shard, meta)
	})
	return got, errors.Join(err, failed)
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
