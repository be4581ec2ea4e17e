package sim

import (
	"bytes"
	"math"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/storage/entry"
	"github.com/tickmesh/tickmesh/node/storage/wal"
)

// image is what a disk's log has of one replica, for the checks. It is made of the records
// that the log returns after they were written, or at a start.
type image struct {
	raftID  uint64
	era     uint32
	role    shardmap.Role
	first   uint64 // index of the first entry
	entries []imageEntry
}

type imageEntry struct {
	entry    entry.Entry
	position wal.Position
}

// add notes an entry, which replaces those from its index on.
func (g *image) add(e *entry.Entry, position wal.Position) {
	kept := *e
	kept.Body = bytes.Clone(e.Body)
	if len(g.entries) == 0 || e.Index < g.first || e.Index > g.first+uint64(len(g.entries)) {
		g.first, g.entries = e.Index, g.entries[:0]
	}
	g.entries = append(g.entries[:e.Index-g.first], imageEntry{kept, position})
}

// last returns the index of the last entry that the log has had.
func (g *image) last() uint64 {
	if g.first == 0 {
		return 0
	}
	return g.first + uint64(len(g.entries)) - 1
}

// at returns an entry; nil: the log does not have it, or not any more.
func (g *image) at(index uint64) *imageEntry {
	if index < g.first || index-g.first >= uint64(len(g.entries)) {
		return nil
	}
	return &g.entries[index-g.first]
}

// has reports whether the entry is in the log, before a position if that is asked for.
func (g *image) has(index, term uint64, before wal.Position) bool {
	if index < g.first {
		return true // trimmed: it was applied durably
	}
	e := g.at(index)
	return e != nil && e.entry.Term == term && e.position < before
}

// cut forgets entries at and after a position.
func (g *image) cut(end wal.Position) {
	for n := len(g.entries); n > 0 && g.entries[n-1].position >= end; n-- {
		g.entries = g.entries[:n-1]
	}
}

// logged reports whether a replica's log has an entry, safe from a power cut if that is
// what an answer says.
func (w *World) logged(shard uint16, id, index, term uint64) bool {
	for _, n := range w.nodes {
		g, before := &n.disk.images[shard], wal.Position(math.MaxUint64)
		if w.options.Always {
			before = n.disk.synced
		} else if n.disk.power {
			before = 0
		}
		if g.raftID == id {
			lost := len(n.disk.former) > 0 || n.disk.power // it was, and its power was cut
			return lost && !w.options.Always || g.has(index, term, before)
		}
	}
	_, made := w.oracle.owners[replicaID{shard, id}]
	return made // it was, and its disk is lost
}
