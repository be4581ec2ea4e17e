package shardmap

import (
	"errors"
	"fmt"
	"strings"
)

// DatabasesMax bounds the names of databases that a store keeps.
const DatabasesMax = 10_000

// databaseBytesMax bounds such a name, which is part of a key of the store.
const databaseBytesMax = 128

// Errors of SetDatabase.
var (
	// ErrDatabase: the name, or the mark, cannot be kept.
	ErrDatabase = errors.New("not a valid name of a database")
	// ErrDatabases: there are DatabasesMax names already.
	ErrDatabases = errors.New("there are too many databases")
)

// DatabaseMark is what somebody has said of a database by its name. Databases need no mark
// to be written to, and one without any is known by its series.
type DatabaseMark string

// The marks.
const (
	// DatabaseCreated: it is there also while it has no series.
	DatabaseCreated DatabaseMark = "created"
	// DatabaseDropped: it is there only if samples came later.
	DatabaseDropped DatabaseMark = "dropped"
)

// Valid reports whether it is one of the marks.
func (m DatabaseMark) Valid() bool { return m == DatabaseCreated || m == DatabaseDropped }

// ValidateDatabase checks a name and a mark, of which "" forgets the name. Names are checked
// for what a store can keep; what clients may call a database is narrower. Errors: ErrDatabase.
func ValidateDatabase(name string, mark DatabaseMark) error {
	if name == "" || len(name) > databaseBytesMax || strings.ContainsAny(name, "/\x00\n") {
		return fmt.Errorf("%w: %q", ErrDatabase, name)
	}
	if mark != "" && !mark.Valid() {
		return fmt.Errorf("%w: the mark %q", ErrDatabase, mark)
	}
	return nil
}
