package rpc

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/wire"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// outbox gathers an answer and sends it in messages of flushBytes or somewhat more.
type outbox[M any] struct {
	send   func(*M) error
	shards []uint16

	mu      sync.Mutex
	open    openShards // guarded by mu, as all below
	pending *M
	size    int   // of pending, bytes, about
	err     error // of the stream: nothing can be sent any more
}

func newOutbox[M any](send func(*M) error, shards []uint16) outbox[M] {
	return outbox[M]{send: send, shards: shards, open: newOpenShards(shards), pending: new(M)}
}

// addedLocked notes that pending has grown, and sends it when it is large enough.
func (o *outbox[M]) addedLocked(size int) error {
	if o.size += size; o.size < flushBytes || o.err != nil {
		return o.err
	}
	return o.flushLocked()
}

func (o *outbox[M]) flushLocked() error {
	if o.err != nil || o.size == 0 {
		return o.err
	}
	o.err = o.send(o.pending)
	o.pending, o.size = new(M), 0
	for _, at := range o.open {
		at.last = nil
	}
	return o.err
}

// finish ends shards that have been forgotten, and sends the rest.
func (o *outbox[M]) finish(end func(shard uint16, err error) error) error {
	o.mu.Lock()
	left := o.open.left(o.shards)
	o.mu.Unlock()
	for _, shard := range left {
		if err := end(shard, errNotEnded); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.flushLocked()
}

type scanSink struct {
	outbox[nodev1.ScanResponse]
	steps *scan.Steps // nil: not asked for
	tells bool        // how many samples are read; guarded by mu
}

func newScanSink(send func(*nodev1.ScanResponse) error, shards []uint16, steps *scan.Steps) *scanSink {
	return &scanSink{newOutbox(send, shards), steps, false}
}

// SamplesRead adds to the samples that were read for values at steps.
func (s *scanSink) SamplesRead(samples int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tells = true
	s.tellLocked(samples)
	return s.err
}

func (s *scanSink) tellLocked(samples int64) {
	all := s.pending.GetSamplesRead() + uint64(samples)
	s.pending.SamplesRead = &all
}

// Chunk adds a copy of a chunk.
func (s *scanSink) Chunk(c *scan.Chunk) error {
	columns := &tickmeshv1.Columns{}
	wire.SetColumns(columns, c)
	return s.add(c, &nodev1.Chunk{Columns: columns})
}

// Steps adds a copy of a chunk of values at steps.
func (s *scanSink) Steps(c *scan.Chunk) error {
	columns := &tickmeshv1.Columns{}
	wire.SetStepColumns(columns, c, s.steps)
	return s.add(c, &nodev1.Chunk{Columns: columns, Steps: true, Series: uint64(c.Series), Sums: wire.AppendSums(nil, c.Sums)})
}

// add adds the message of a chunk.
func (s *scanSink) add(c *scan.Chunk, m *nodev1.Chunk) error {
	m.Shard, m.Id = uint32(c.Ref.Shard), uint32(c.Ref.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.open.get(c.Ref.Shard)
	if err != nil {
		return err
	}
	if m.Id != at.id {
		if m.Id < at.id || m.Id == 0 {
			return fmt.Errorf("%w: series %d of shard %d after series %d", wire.ErrInternal, m.Id, m.Shard, at.id)
		}
		s.endSeriesLocked(m.Shard, at)
		m.Key = bytes.Clone(c.Key)
		at.id = m.Id
	}
	at.last = m
	if s.tells && s.pending.SamplesRead == nil {
		s.tellLocked(0)
	}
	s.pending.Chunks = append(s.pending.Chunks, m)
	return s.addedLocked(len(m.Key) + columnsBytes(m.GetColumns()) + len(m.Sums) + 4*fieldBytes)
}

// columnsBytes is about the encoded size.
func columnsBytes(c *tickmeshv1.Columns) int {
	floats := len(c.GetValues()) + len(c.GetSums()) + len(c.GetMins()) + len(c.GetMaxs()) + len(c.GetFirsts()) + len(c.GetLasts()) + len(c.GetDigests())
	return 8*floats + 3*len(c.GetTimeDeltasMs()) + 2*len(c.GetCounts())
}

// endSeriesLocked marks the last chunk of a shard's series, with an empty one when
// that is sent already.
func (s *scanSink) endSeriesLocked(shard uint32, at *openShard) {
	switch {
	case at.id == 0:
	case at.last != nil:
		at.last.SeriesEnd = true
	default:
		s.pending.Chunks = append(s.pending.Chunks, &nodev1.Chunk{Shard: shard, Id: at.id, SeriesEnd: true})
		s.size += 4 * fieldBytes
	}
}

// ShardEnd ends a shard. With an error its last series may be incomplete, so that
// the caller asks for it again.
func (s *scanSink) ShardEnd(shard uint16, shardErr error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.open.get(shard)
	if err != nil {
		return err
	}
	if shardErr == nil {
		s.endSeriesLocked(uint32(shard), at)
	}
	delete(s.open, shard)
	s.pending.Ends = append(s.pending.Ends, wire.FromShardEnd(shard, shardErr))
	return s.addedLocked(4 * fieldBytes)
}

func (s *scanSink) finish() error { return s.outbox.finish(s.ShardEnd) }

type lastSink struct{ outbox[nodev1.LastResponse] }

func newLastSink(send func(*nodev1.LastResponse) error, shards []uint16) *lastSink {
	return &lastSink{newOutbox(send, shards)}
}

// Point adds a newest sample.
func (s *lastSink) Point(shard uint16, p scan.Point) error {
	m := &nodev1.LastPoint{Shard: uint32(shard), Key: bytes.Clone(p.Key), TimeMs: p.TimeMs, Value: p.Value}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.open.get(shard); err != nil {
		return err
	}
	s.pending.Points = append(s.pending.Points, m)
	return s.addedLocked(len(m.Key) + 8*fieldBytes)
}

// ShardEnd ends a shard.
func (s *lastSink) ShardEnd(shard uint16, shardErr error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open.end(shard); err != nil {
		return err
	}
	s.pending.Ends = append(s.pending.Ends, wire.FromShardEnd(shard, shardErr))
	return s.addedLocked(4 * fieldBytes)
}

func (s *lastSink) finish() error { return s.outbox.finish(s.ShardEnd) }

type seriesSink struct {
	outbox[nodev1.ListSeriesResponse]
}

func newSeriesSink(send func(*nodev1.ListSeriesResponse) error, shards []uint16) *seriesSink {
	return &seriesSink{newOutbox(send, shards)}
}

// Key adds a key.
func (s *seriesSink) Key(shard uint16, k series.Key) error {
	key := bytes.Clone(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.open.get(shard); err != nil {
		return err
	}
	keys := s.keysLocked(shard)
	keys.Keys = append(keys.Keys, key)
	return s.addedLocked(len(key) + fieldBytes)
}

// keysLocked returns the pending keys of a shard: the last ones, if they are its.
func (s *seriesSink) keysLocked(shard uint16) *nodev1.ShardKeys {
	if n := len(s.pending.Keys); n > 0 && s.pending.Keys[n-1].GetShard() == uint32(shard) {
		return s.pending.Keys[n-1]
	}
	keys := &nodev1.ShardKeys{Shard: uint32(shard)}
	s.pending.Keys = append(s.pending.Keys, keys)
	s.size += 2 * fieldBytes
	return keys
}

// ShardEnd ends a shard.
func (s *seriesSink) ShardEnd(shard uint16, total int64, shardErr error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open.end(shard); err != nil {
		return err
	}
	if shardErr == nil {
		s.keysLocked(shard).Total = total
	}
	s.pending.Ends = append(s.pending.Ends, wire.FromShardEnd(shard, shardErr))
	return s.addedLocked(4 * fieldBytes)
}

func (s *seriesSink) finish() error {
	return s.outbox.finish(func(shard uint16, err error) error { return s.ShardEnd(shard, 0, err) })
}
