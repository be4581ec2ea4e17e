// Package cache keeps the windows of time that is over, so that a dashboard that is drawn
// again reads only what is new. It is a scan.Source before another one.
//
// An answer with windows is kept by what it was asked for: selector, width, origin and
// aggregates. It begins at its first whole window and ends with the last one that is
// closed: over for a while, so that no late sample is likely. Beside it stand marks of the
// shards, taken before it was read. When it is asked for again, the nodes say, in one call
// each, which times have changed since those marks, whoever has written, deleted or cut
// there (scan.Historian). What lies before them holds; it is merged with scans of what lies
// around it: the part of a window at the front, and what is not closed or has changed.
//
// C1. What is kept up to a window stands for the marks beside it: no sample of it has
// changed between the marks and the moment at which it was read that is not told of by a
// later question about those marks.
//
// C2. Marks and windows change together, and only when the end is still the one that the
// new marks were asked for; an entry that was cut is another entry.
//
// C3. A stretch of windows that was read is never changed, only appended to, so readers
// need no copy.
//
// What is asked for once is not kept, only that it was asked for.
package cache
