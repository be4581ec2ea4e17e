package vfs

import "fmt"

// BrokenError reports why a log takes no more writes: a write or sync of a file has
// failed, after which it is unknown what the disk holds. It wraps both of its errors.
type BrokenError struct {
	Kind  error  // what is broken, for errors.Is
	File  string // name of the file or folder
	Cause error  // what the file system gave
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%v: %s: %v; check the disk, then restart the node", e.Kind, e.File, e.Cause)
}

// Unwrap returns the kind and the cause.
func (e *BrokenError) Unwrap() []error { return []error{e.Kind, e.Cause} }
