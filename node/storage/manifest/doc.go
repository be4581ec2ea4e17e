// Package manifest owns what of a data folder counts: the manifest, the segments that it
// names, and the versions of them that readers hold.
//
// A Store is changed in two steps by whoever has its Edit: Publish replaces the file, then the change
// is shown to readers as another Version. A Version is immutable: segments in the order of writing, and
// their Visibility, which has all rules of what does not count though it is in a file. A reader holds a Version by a
// Lease; what no version names any more is given up when the last reader that could see it has left.
//
// The package depends on no shard, no series table and no log. What a manifest refers to is made durable
// by the owner's function, and whoever drops a generation of the page log says how.
package manifest
