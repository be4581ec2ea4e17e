package shardmap

import (
	"errors"
	"fmt"
)

// Bounds of records of metadata.
const (
	MetadataRecordsMax = 4096    // databases that have one
	MetadataBytesMax   = 1 << 20 // of one, which etcd takes in one request
)

// Errors of Store.SwapMetadata.
var (
	// ErrMetadata: the record, or its database, is too long to be kept.
	ErrMetadata = errors.New("not a record of metadata that can be kept")
	// ErrMetadataChanged: another process has changed the record.
	ErrMetadataChanged = errors.New("the record of metadata was changed by another")
)

// MetadataRecord is what the routers of a cluster have been told that the metrics of a database mean. Its text is
// theirs: the store does not read it.
type MetadataRecord struct {
	Database string // "" is the default one
	Revision int64  // of the store when the record was written; it grows. 0: there is none
	Text     []byte
}

// Validate returns ErrMetadata for a record that cannot be kept.
func (r *MetadataRecord) Validate() error {
	if len(r.Database) > databaseBytesMax || len(r.Text) > MetadataBytesMax {
		return fmt.Errorf("%w: database %q, %d bytes", ErrMetadata, r.Database, len(r.Text))
	}
	return nil
}
