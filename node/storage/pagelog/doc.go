// Package pagelog keeps full pages in files, in the order in which they were
// filled. FORMAT.md has the bytes.
//
// Pages go to the newest generation. A generation is a stretch of at most 2 GiB
// in files of fixed size, the extents. Roll ends it and begins the next; the
// owner then sorts the old one into segments and Drops it. A page names its
// predecessor by Ref, so a series' pages of a generation are a chain that ends
// at its newest page.
//
// # Use
//
// Append may be called by many goroutines and returns a Ref at once; the page can
// be read from then on, first from a buffer, later through the mapping of its
// extent. Reads need a Pin, which holds the generations that were live when it
// was made, or with PinFrom the younger of them: what it holds stays readable even if it
// is dropped meanwhile.
//
// Append only fills buffers. WriteFull writes those that are full, and so do Flush, Sync and
// Roll; only when there are BuffersMax does Append write itself. So who calls WriteFull
// before it takes a lock waits for no disk while it holds it.
//
// # Durability
//
// Sync makes all pages so far durable and returns a State for the owner's manifest.
// Open with that State has exactly those pages: what was appended later is cut
// off, and generations that the State does not name are deleted. So a generation
// may be dropped only after a manifest without it has been published. The State
// of an empty manifest is the zero State.
//
// # Failure
//
// Each page has a checksum over its place, its header and its payload. A page
// that is damaged costs itself: Read returns a *CorruptError, Each and Open report
// it, count it and go on with the next one. A write or sync that fails breaks the
// log for writing (ErrBroken): pages are still read, those of the failed write
// from memory. No room for another extent is a *SpaceError and breaks nothing.
package pagelog
