package service

import (
	"context"
	"fmt"
	"io"

	"github.com/tickmesh/tickmesh/api/handshake"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
)

// Digest implements rpc.Node.
func (s *Service) Digest(ctx context.Context, shard uint16, fromMs, toMs int64) (*rpc.Digest, error) {
	d, err := s.node.Repair().DigestRange(ctx, shard, fromMs, toMs)
	if err != nil {
		return nil, ofDamage(err)
	}
	return &rpc.Digest{AppliedIndex: d.Applied, UnchangedSince: d.Since, Bytes: d.AppendTo(nil)}, nil
}

// ExportRange implements rpc.Node.
func (s *Service) ExportRange(ctx context.Context, shard uint16, fromMs, toMs int64, indexMin uint64, to io.Writer) error {
	return ofDamage(s.node.Repair().GiveRange(ctx, shard, fromMs, toMs, indexMin, to))
}

// RepairShard implements rpc.Node.
func (s *Service) RepairShard(_ context.Context, shard uint16, fromMs, toMs int64) error {
	return s.node.Repair().Suspect(shard, fromMs, toMs)
}

// HeardEntries implements rpc.Node.
func (s *Service) HeardEntries(from string, known handshake.Entries) {
	s.node.HeardEntries(from, node.Entries{Forgets: uint32(known.Forgets), Thins: uint32(known.Thins), Hours: uint32(known.Hours), Exemplars: uint32(known.Exemplars)})
}

// HeardClock implements rpc.Node.
func (s *Service) HeardClock(from string, timeMs int64) { s.node.HeardClock(from, timeMs) }

// ofDamage marks what cannot be read here as what may be read elsewhere, or later.
func ofDamage(err error) error {
	if manifest.IsDamage(err) {
		return fmt.Errorf("%w: %w", series.ErrUnavailable, err)
	}
	return err
}
