package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/backoff"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// attemptsMax bounds attempts to go on without a byte in between.
const attemptsMax = 12

// DownloadRequest describes what to fetch.
type DownloadRequest struct {
	Shard          uint16
	Export         string              // to go on with an export; empty: a new one
	Offset         int64               // from which byte on; 0 for a new one
	BytesPerSecond uint64              // asked of the sender; 0: no bound
	Pace           *Pace               // of all downloads together; nil: no bound
	Backoff        backoff.Exponential // zero: the default
}

// Download is a shard's export on its way here: a reader that goes on, where it was,
// after lost connections and damaged chunks. Its reader is one goroutine; Progress
// may be called by any.
type Download struct {
	ctx     context.Context
	client  nodev1.NodeServiceClient
	request DownloadRequest
	export  Export // Bytes unset

	stream   grpc.ServerStreamingClient[nodev1.FetchShardResponse]
	cancel   context.CancelFunc // of stream
	chunk    []byte             // not read yet
	attempts int                // without a byte
	done     atomic.Int64       // offset of the next byte
	resumed  atomic.Int64
}

// OpenDownload asks for an export and waits for its description. The context ends
// the download; Close has to be called. Errors: wire.ErrNotFound when the export to
// go on with is gone; series.ErrOverloaded; series.ErrUnavailable when the sender
// was not reached in a bounded number of attempts.
func OpenDownload(ctx context.Context, conn grpc.ClientConnInterface, request DownloadRequest) (*Download, error) {
	request.Backoff = cmp.Or(request.Backoff, backoffDefault())
	d := &Download{ctx: ctx, client: nodev1.NewNodeServiceClient(conn), request: request}
	d.done.Store(request.Offset)
	if err := d.connect(); err != nil {
		return nil, err
	}
	return d, nil
}

// Export describes what is fetched; Bytes is nil.
func (d *Download) Export() Export { return d.export }

// Progress returns the bytes that have arrived, those in all, and how often the
// download had to go on after a failure.
func (d *Download) Progress() (doneBytes, totalBytes, resumed int64) {
	return d.done.Load(), d.export.TotalBytes, d.resumed.Load()
}

// Close ends the stream. The export stays with the sender for a while.
func (d *Download) Close() {
	if d.cancel != nil {
		d.cancel()
		d.stream, d.cancel = nil, nil
	}
}

// Read returns the next bytes, io.EOF after the last one. Errors: as OpenDownload, and
// the context's.
func (d *Download) Read(p []byte) (int, error) {
	for len(d.chunk) == 0 {
		if d.done.Load() == d.export.TotalBytes {
			return 0, io.EOF
		}
		if d.stream == nil {
			d.resumed.Add(1)
			if err := d.connect(); err != nil {
				return 0, err
			}
		}
		if err := d.receive(); err != nil {
			d.Close()
			if err := d.failed(err); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, d.chunk)
	d.chunk = d.chunk[n:]
	d.done.Add(int64(n))
	return n, nil
}

// receive takes the next chunk.
func (d *Download) receive() error {
	m, err := d.stream.Recv()
	if err == io.EOF { //nolint:errorlint // gRPC returns io.EOF itself
		return fmt.Errorf("%w: the export ended early", series.ErrUnavailable)
	}
	if err != nil {
		return wire.FromStatus(err)
	}
	data := m.GetData()
	if m.GetOffset() != uint64(d.done.Load()) || int64(len(data)) > d.export.TotalBytes-d.done.Load() {
		return fmt.Errorf("%w: %d bytes at %d instead of %d of %d", series.ErrUnavailable, len(data), m.GetOffset(), d.done.Load(), d.export.TotalBytes)
	}
	if checksumOf(data) != m.GetChecksum() {
		return fmt.Errorf("%w: the chunk at %d is damaged", series.ErrUnavailable, m.GetOffset())
	}
	if len(data) > 0 {
		d.attempts = 0
	}
	// What is not taken from the stream is not sent: gRPC's window fills.
	if err := d.request.Pace.wait(d.ctx, min(len(data), chunkBytes)); err != nil {
		return err
	}
	d.chunk = data
	return nil
}

// connect opens a stream at the present offset, trying again a bounded number of
// times.
func (d *Download) connect() error {
	for {
		err := d.open()
		if err == nil {
			return nil
		}
		d.Close()
		if err := d.failed(err); err != nil {
			return err
		}
	}
}

// failed waits before the next attempt, or returns the error that ends the download.
func (d *Download) failed(err error) error {
	if ctxErr := d.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if !errors.Is(err, series.ErrUnavailable) && !errors.Is(err, series.ErrOverloaded) {
		return err
	}
	d.attempts++
	if d.attempts >= attemptsMax {
		return fmt.Errorf("%d attempts to fetch shard %d from byte %d on failed: %w", d.attempts, d.request.Shard, d.done.Load(), err)
	}
	timer := time.NewTimer(d.request.Backoff.Delay(d.attempts))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
}

func (d *Download) open() error {
	ctx, cancel := context.WithCancel(d.ctx)
	d.cancel = cancel
	name := d.export.ID
	if name == "" {
		name = d.request.Export
	}
	stream, err := d.client.FetchShard(ctx, &nodev1.FetchShardRequest{
		Shard: uint32(d.request.Shard), Export: name, Offset: uint64(d.done.Load()), BytesPerSecond: d.request.BytesPerSecond,
	})
	if err != nil {
		return wire.FromStatus(err)
	}
	m, err := stream.Recv()
	if err == io.EOF { //nolint:errorlint // gRPC returns io.EOF itself
		return fmt.Errorf("%w: the sender sent nothing", series.ErrUnavailable)
	}
	if err != nil {
		return wire.FromStatus(err)
	}
	export := Export{ID: m.GetExport().GetId(), Index: m.GetExport().GetIndex(), Term: m.GetExport().GetTerm()}
	if total := m.GetExport().GetTotalBytes(); export.ID == "" || total > math.MaxInt64 || int64(total) < d.done.Load() {
		return fmt.Errorf("%w: export %q of %d bytes", wire.ErrInvalid, export.ID, total)
	}
	export.TotalBytes = int64(m.GetExport().GetTotalBytes())
	if name != "" && name != export.ID || d.export.ID != "" && d.export != export {
		return fmt.Errorf("%w: export %s was asked for, another one came", wire.ErrNotFound, name)
	}
	if d.export.ID == "" { // Progress may look at it from then on
		d.export = export
	}
	d.stream = stream
	return nil
}
