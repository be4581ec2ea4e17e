package memstore

import (
	"bytes"
	"context"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Metadata implements shardmap.Store.
func (s *Store) Metadata(ctx context.Context, since int64) (changed []shardmap.MetadataRecord, revision int64, err error) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if err := s.usableLocked(ctx); err != nil {
		return nil, 0, err
	}
	for _, r := range s.server.mu.metadata {
		if r.Revision > since {
			changed = append(changed, r)
		}
	}
	return changed, s.server.mu.revision, nil
}

// SwapMetadata implements shardmap.Store.
func (s *Store) SwapMetadata(ctx context.Context, record shardmap.MetadataRecord) (revision int64, err error) {
	if err := record.Validate(); err != nil {
		return 0, err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if err := s.usableLocked(ctx); err != nil {
		return 0, err
	}
	switch old, found := s.server.mu.metadata[record.Database]; {
	case old.Revision != record.Revision:
		return 0, shardmap.ErrMetadataChanged
	case !found && len(s.server.mu.metadata) >= shardmap.MetadataRecordsMax:
		return 0, shardmap.ErrDatabases
	}
	s.server.mu.revision++
	if len(record.Text) == 0 {
		delete(s.server.mu.metadata, record.Database)
		return s.server.mu.revision, nil
	}
	record.Revision, record.Text = s.server.mu.revision, bytes.Clone(record.Text)
	s.server.mu.metadata[record.Database] = record
	return record.Revision, nil
}
