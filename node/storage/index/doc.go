// Package index is the series table of one node: which series there are, what
// they are called, and which of them a selector picks.
//
// # Parts
//
// The key file holds the key of every series, in the order of creation; the
// number of a series in that order is its local id. It is append-only and mapped.
// A hash table leads from a key to its local id: a persisted one, and stripes in memory for newer
// series. A flat array for each shard leads from the id within the shard to the local id. None of this has a Go pointer
// for each series.
//
// The postings say which series carry a tag's value. They are kept in parts: a
// part covers a range of local ids and is never changed, only replaced by one
// that covers more. New series go without until a part is built for them, by the
// background worker or by the first query that needs it. A part remembers what the
// expressions asked for last pick of it (valueMemo). Activity says which
// series had samples in which month and on which day; a series that has none left, as retention has
// dropped them or a delete has taken them all, is no longer found.
//
// The key file and the activity are what the disk has to keep (FORMAT.md). All else follows from the
// keys, and is persisted by Sync in files that are mapped (persister): a start builds only what has come
// since, and memory holds, besides the activity, only that. None of these files changes; they are
// appended to, or another one takes their place.
//
// # Reading mapped memory
//
// Every method guards its own reads of mapped memory (vfs.Guard), but Resolve,
// which is too cheap for that: its caller runs it inside one guard (Index.Guard) for a whole
// request. What follows from the keys is checked where it is read (seal), as the kernel may
// read it from the disk again, and is built from the keys again if it is not what it was. A mapping that is replaced is given back when the garbage collector
// finds that nobody can reach its owner (held), so readers keep that alive.
//
// # Locks
//
// Readers take none, queries for series that no part has yet excepted, and those who meet what does not read as
// before and build it again. The order is: the lock of a Sync, which who drops the hash table takes, too → that of
// merges → that of the list of parts → a shard's → the stripe of the hash table → the key file.
package index
