package transfer

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

	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage/transfer"
)

// Progress is how far the files of a shard have come.
type Progress struct {
	FromNode              string
	DoneBytes, TotalBytes int64
	BytesPerSecond        int64 // since the beginning
}

// ShardFiles is a shard at one entry of its log, as a row of bytes: uvarint length of
// the meta, meta (replica.SnapshotMeta), the engine's export. It must be closed.
type ShardFiles struct {
	export *transfer.Export
	head   []byte
	Index  uint64
	Term   uint64
}

const metaBytesMax = 1 << 16

// Open pins the state of a shard. Errors: series.ErrUnavailable when there is
// no replica that could be copied; those of the disk.
func (s *Service) Open(shard uint16) (*ShardFiles, error) {
	const attempts = 3 // the log may be shortened beyond the export meanwhile
	var err error
	for range attempts {
		var f *ShardFiles
		if f, err = s.open(shard); !errors.Is(err, replica.ErrTruncated) {
			return f, err
		}
	}
	return nil, err
}

func (s *Service) open(shard uint16) (*ShardFiles, error) {
	export, err := s.options.Engine.ExportShard(shard)
	if err != nil {
		return nil, err
	}
	meta, err := s.options.Loop.SnapshotMeta(shard, export.Index)
	if err != nil {
		return nil, errors.Join(err, export.Close())
	}
	encoded := meta.AppendTo(nil)
	head := append(binary.AppendUvarint(nil, uint64(len(encoded))), encoded...)
	return &ShardFiles{export: export, head: head, Index: meta.Index, Term: meta.Term}, nil
}

// Size returns the number of bytes.
func (f *ShardFiles) Size() int64 { return int64(len(f.head)) + f.export.Size() }

// OpenAt returns the bytes from an offset on, to one goroutine.
func (f *ShardFiles) OpenAt(offset int64) io.Reader {
	if head := int64(len(f.head)); offset < head {
		return io.MultiReader(bytes.NewReader(f.head[offset:]), f.export.OpenAt(0))
	}
	return f.export.OpenAt(offset - int64(len(f.head)))
}

// Close releases the pinned files.
func (f *ShardFiles) Close() error { return f.export.Close() }

// Bounds of the shards whose files are fetched at once, and of those that wait for it.
const (
	fetchesMax     = 2
	fetchesWaiting = 8
)

// running are the streams that are on their way.
type running struct {
	sync.Mutex
	byShard map[uint16]*fetching
}

// fetching is a stream of files on its way.
type fetching struct {
	from   string
	start  time.Time
	stream Progressing
}

// began notes a stream; the caller tells when it is over.
func (r *running) began(shard uint16, f *fetching) (over func()) {
	r.Lock()
	defer r.Unlock()
	r.byShard[shard] = f
	return func() {
		r.Lock()
		defer r.Unlock()
		delete(r.byShard, shard)
	}
}

// Progress returns how far the files of a shard are at a moment; nil: none are fetched.
func (s *Service) Progress(shard uint16, now time.Time) *Progress {
	return s.running.progress(shard, now)
}

func (r *running) progress(shard uint16, now time.Time) *Progress {
	r.Lock()
	f := r.byShard[shard]
	r.Unlock()
	if f == nil {
		return nil
	}
	p := &Progress{FromNode: f.from}
	p.DoneBytes, p.TotalBytes, _ = f.stream.Progress()
	if took := now.Sub(f.start); took > 0 {
		p.BytesPerSecond = int64(float64(p.DoneBytes) / took.Seconds())
	}
	return p
}

// fetchFiles meets one need after the other until ctx ends.
func (s *Service) fetchFiles(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case need := <-s.fetches.tasks:
			start := s.options.Clock()
			got, err := s.Install(ctx, need)
			if err == nil {
				s.options.Logger.Info("the files of a shard were fetched", "shard", need.Shard, "from", need.Leader, "index", got.Index,
					"bytes", got.Bytes, "series", got.Series, "took_ms", s.options.Clock().Sub(start).Milliseconds())
			} else if ctx.Err() == nil {
				s.options.Logger.Warn("the files of a shard could not be fetched; they will be asked for again", "shard", need.Shard, "from", need.Leader, "error", err)
			}
			s.fetches.done(need.Shard)
		}
	}
}

// Install replaces the shard's data by what another node has, and tells the loop.
func (s *Service) Install(ctx context.Context, need replica.SnapshotNeed) (got transfer.ShardExport, err error) {
	if s.options.Files == nil {
		return got, errors.New("this node has no way to fetch files")
	}
	installing, cancel := context.WithCancel(ctx) // ends with the replica, too
	defer cancel()
	opened, err := s.options.Files.Fetch(installing, need.Leader, need.Shard)
	if err != nil {
		return got, err
	}
	if stream, ok := opened.(Progressing); ok {
		defer s.running.began(need.Shard, &fetching{from: need.Leader, start: s.options.Clock(), stream: stream})()
	}
	stream := newAttended(opened, cancel)
	defer stream.Close()
	in := bufio.NewReaderSize(stream, 256<<10)
	meta, err := readMeta(in)
	if err != nil {
		return got, err
	}
	witness, err := s.options.Loop.BeginSwap(need.Shard, meta, cancel)
	if err != nil {
		return got, err
	}
	if err = s.options.Loop.AwaitSwap(installing, need.Shard); err == nil && !witness {
		got, err = s.install(installing, need.Shard, &meta, in)
	}
	return got, s.options.Loop.EndSwap(ctx, need.Shard, err)
}

// install swaps the files of a shard.
func (s *Service) install(ctx context.Context, shard uint16, meta *replica.SnapshotMeta, in io.Reader) (transfer.ShardExport, error) {
	got, err := s.options.Engine.InstallShard(ctx, shard, s.options.Loop.LogEnd(), in)
	if err == nil && got.Index != meta.Index {
		err = fmt.Errorf("%w: files of entry %d with a meta of entry %d", replica.ErrSnapshot, got.Index, meta.Index)
	}
	return got, err
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
