package read

import (
	"context"
	"fmt"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
)

// Reader reads one series after the other out of segments, page log and hot
// pages. It is for one goroutine.
type Reader struct {
	source          *Source
	*manifest.Lease                     // whoever reads a series enters, and parks before it emits
	began           []manifest.LowWater // of the shards when the reader began: it reads no later replica
	bytesMax        int64               // of payloads and overlay; 0: no bound
	ctx             context.Context     //nolint:containedctx // of the reader's goroutine
	account         scan.Holding
	charged         int64         // to it, for a long series
	turn            chan struct{} // of the account: who has a long series; nil: nothing is charged
	inTurn          bool

	decodedSamples, decodedBytes int64

	rollup rollupReader
	*readerMemory
}

// NewReader returns a reader that has entered the current version. What it may hold for a series has a bound; 0: none.
func (s *Source) NewReader(bytesMax int64) *Reader {
	l := s.o.Files.Lease(s.o.Pages)
	r := &Reader{source: s, Lease: l, began: l.Version.LowWater, bytesMax: bytesMax, readerMemory: s.takeMemory()}
	r.leaveSegments(len(l.Version.Segments))
	return r
}

// newReaderOf returns a reader for a worker of a scan. What it holds for a long series is charged to the account of the
// scan's limits: it waits for room there until ctx ends, which is that of its goroutine. Of the workers of all scans of an
// account one at a time has a long series.
func (s *Source) newReaderOf(ctx context.Context, limits scan.Limits) *Reader {
	r := s.NewReader(limits.BytesMax)
	if limits.Account != nil {
		r.ctx, r.account.Account, r.turn = ctx, limits.Account, limits.Account.Turn()
	}
	return r
}

// enter begins a series.
func (r *Reader) enter() {
	if r.Lease.Enter() {
		r.leaveSegments(len(r.Version.Segments))
	}
}

func (r *Reader) Close() {
	r.End()
	r.leaveLong()
	r.leaveSegments(0)
	r.source.decoded.samples.Add(r.decodedSamples)
	r.source.decoded.bytes.Add(r.decodedBytes)
	r.source.keepMemory(r.readerMemory)
	r.readerMemory = nil
}

// ErrReplaced ends a scan that began before a shard was dropped or replaced.
var ErrReplaced = fmt.Errorf("%w: the shard's replica was replaced", series.ErrUnavailable)
