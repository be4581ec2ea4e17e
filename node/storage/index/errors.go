package index

import (
	"errors"
	"fmt"
)

// Kinds of errors, for errors.Is.
var (
	// ErrConflict: a series with this key or this (shard, id) exists already and
	// is not the same one. The caller has a bug or the log is not the node's own.
	ErrConflict = errors.New("series exists with another identity")
	// ErrIDGap: the id is not the next one of its shard.
	ErrIDGap = errors.New("series id is not the next one of its shard")
	// ErrUnknown: there is no such series, or its record is lost.
	ErrUnknown = errors.New("unknown series")
	// ErrForgotten is an ErrUnknown of a series that is forgotten for good, so that nothing is missing without it.
	ErrForgotten = fmt.Errorf("%w: it is forgotten for good", ErrUnknown)
	// ErrFull: the node can hold no more series.
	ErrFull = errors.New("series table is full")
	// ErrFailed: a sync of the key file failed, so it is not known what is on the
	// disk. Nothing more is promised until the index is opened again.
	ErrFailed = errors.New("series table failed to sync")
	// ErrVersion: the file was written by a version that is not known here.
	ErrVersion = errors.New("unknown file version")
	// ErrRegexp: a matcher's regular expression is not valid.
	ErrRegexp = errors.New("bad regular expression")
	// ErrMatcher: a matcher has no name, no values where it needs one, or an
	// unknown kind.
	ErrMatcher = errors.New("bad matcher")
	// ErrClosed: the index is closed.
	ErrClosed = errors.New("series table is closed")
)

// CorruptError reports that bytes of a file are not what was written.
type CorruptError struct {
	File   string
	Offset int64
	What   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s", e.File, e.Offset, e.What)
}
