package wal

import (
	"errors"
	"fmt"
)

// Kinds of errors, for errors.Is.
var (
	// ErrBroken: an earlier write or sync failed; the log takes no more writes.
	ErrBroken = errors.New("the log takes no more writes")
	// ErrClosed: the log has been closed.
	ErrClosed = errors.New("the log is closed")
	// ErrNoRecord: there is no record at the position asked for.
	ErrNoRecord = errors.New("no log record at this position")
	// ErrTrimmed: the position asked for is before what the log still has.
	ErrTrimmed = errors.New("the log has been trimmed beyond this position")
)

// SpaceError reports that no room could be had for the next file. Nothing has been
// written and the log is whole: the same Write succeeds once there is room.
type SpaceError struct {
	Dir   string
	Bytes int64 // of the file that did not fit
	Cause error
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("no room for the next log file of %d bytes in %s: %v; free disk space and writing goes on", e.Bytes, e.Dir, e.Cause)
}

// Unwrap returns the cause.
func (e *SpaceError) Unwrap() error { return e.Cause }

// CorruptError reports a stretch of the log that was synced and is damaged.
type CorruptError struct {
	File   string   // name, or where the file should be
	Offset int64    // in the file
	Length int64    // bytes up to the next good record, or to the end of the file
	At     Position // of the offset
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("log file %s is damaged: %d bytes at offset %d (position %d) are lost", e.File, e.Length, e.Offset, e.At)
}
