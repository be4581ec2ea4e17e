package shardmap

import (
	"errors"
	"fmt"
)

// Bounds of the continuous queries that a store keeps.
const (
	QueriesMax          = 1000
	queryIDBytesMax     = 1 << 10
	queryRecordBytesMax = 16 << 10
)

// Errors of SwapQuery.
var (
	// ErrQuery: the id or the record cannot be kept.
	ErrQuery = errors.New("not a valid record of a continuous query")
	// ErrQueries: there are QueriesMax queries already.
	ErrQueries = errors.New("there are too many continuous queries")
	// ErrQueryChanged: the query's record is not the one expected.
	ErrQueryChanged = errors.New("the record of the continuous query was changed by another")
)

// ValidateQuery checks the id of a continuous query, printable ASCII without spaces, and the size of its
// record, of which "" forgets the query. What a record says is not looked at. Errors: ErrQuery.
func ValidateQuery(id, record string) error {
	if id == "" || len(id) > queryIDBytesMax {
		return fmt.Errorf("%w: an id of %d bytes, 1 to %d expected", ErrQuery, len(id), queryIDBytesMax)
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("%w: the id %q", ErrQuery, id)
		}
	}
	if len(record) > queryRecordBytesMax {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrQuery, len(record), queryRecordBytesMax)
	}
	return nil
}
