package sim

import (
	"fmt"
	"math"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/node/replica"
	"github.com/tickmesh/tickmesh/node/storage"
)

// folder is a data folder: it outlives processes, and what is synced in it outlives
// the power.
type folder struct {
	node        string
	incarnation string
	first       int // records before it are trimmed
	records     [][]byte
	synced      int // records up to here, trimmed ones included, survive a power cut
	position    int // records before it are in the checkpoint
	shards      []durableShard
	kept        *shardmap.Map // newest map adopted
	power       bool          // the power was cut since the last start
	lost        bool          // records were lost by it
	serial      int
	images      []image  // by shard, for the checks
	spent       []uint64 // by shard: the last raft id that was removed here
	relics      []relic  // of replicas that may not go on as such
	former      []string // incarnations that it was before
}

// durableShard is what the engine's files have of a shard.
type durableShard struct {
	shardState
	logPosition int // records before it belong to replicas that are no more
}

func (w *World) newFolder(node string) *folder {
	w.folders++
	return &folder{node: node, incarnation: fmt.Sprintf("%032x", w.folders), serial: w.folders,
		shards: make([]durableShard, w.options.Shards), images: make([]image, w.options.Shards), spent: make([]uint64, w.options.Shards)}
}

func (f *folder) end() int { return f.first + len(f.records) }

func (f *folder) record(position int) ([]byte, error) {
	if position < f.first || position >= f.end() {
		return nil, fmt.Errorf("no record at %d: the log has %d to %d", position, f.first, f.end())
	}
	return f.records[position-f.first], nil
}

func (f *folder) write(records [][]byte) { f.records = append(f.records, records...) }

func (f *folder) sync(upto int) { f.synced = max(f.synced, min(upto, f.end())) }

func (f *folder) trim(position int) {
	if position > f.first {
		n := min(position, f.end()) - f.first
		f.first += n
		f.records = append([][]byte(nil), f.records[n:]...)
		f.synced = max(f.synced, f.first)
	}
}

// cutPower loses the records that are not synced, but for a first part of them.
func (f *folder) cutPower(part float64) {
	unsynced := f.end() - f.synced
	keep := int(part * float64(unsynced+1))
	f.power = true
	f.lost = f.lost || keep < unsynced
	f.records = f.records[:min(f.synced+keep, f.end())-f.first]
	for shard := range f.images {
		f.images[shard].cut(f.end())
	}
	f.synced = f.end() // what is read at the start is written anew before it counts
}

// places are the positions of a shard's consecutive entries in the log.
type places struct {
	first     uint64
	positions []int
}

func (s *places) add(index uint64, position int) {
	if len(s.positions) == 0 || index < s.first || index > s.first+uint64(len(s.positions)) {
		s.first, s.positions = index, append(s.positions[:0], position)
		return
	}
	s.positions = append(s.positions[:index-s.first], position)
}

func (s *places) trim(index uint64) {
	if index < s.first || len(s.positions) == 0 {
		return
	}
	n := min(index+1-s.first, uint64(len(s.positions)))
	s.first += n
	s.positions = append(s.positions[:0], s.positions[n:]...)
}

func (s *places) from(index uint64) (int, bool) {
	at := uint64(0)
	if index+1 > s.first {
		at = index + 1 - s.first
	}
	if at >= uint64(len(s.positions)) {
		return 0, false
	}
	return s.positions[at], true
}

// lost gives the index up to which entries have no place: they are of the time when
// the group was lone, and go with the next checkpoint.
func (s *places) lost() uint64 {
	if len(s.positions) == 0 {
		return math.MaxUint64
	}
	return s.first - 1
}

// Entries implements replica.Log.
func (p *process) Entries(shard uint16, lo, hi uint64, bytesMax int) ([]replica.Entry, error) {
	s := &p.places[shard]
	if lo < s.first || hi > s.first+uint64(len(s.positions)) || lo >= hi {
		return nil, replica.ErrTruncated
	}
	var entries []replica.Entry
	for index := lo; index < hi; index++ {
		record, err := p.folder.record(s.positions[index-s.first])
		if err != nil {
			return nil, err
		}
		e, err := storage.ParseEntry(record)
		if err != nil || e.Shard != shard || e.Index != index {
			p.world.fail(6, "%s: the log has %d of shard %d where %d of shard %d was: %v", p.node.id, e.Index, e.Shard, index, shard, err)
			return nil, replica.ErrTruncated
		}
		if bytesMax -= len(e.Body); bytesMax < 0 && len(entries) > 0 {
			break
		}
		entries = append(entries, replica.Entry{Kind: uint8(e.Kind), Term: e.Term, Index: e.Index, Body: e.Body})
	}
	return entries, nil
}

// image is what a folder's log has of one replica, for the checks.
type image struct {
	raftID    uint64
	era       uint32
	first     uint64
	terms     []uint64
	positions []int
}

// last returns the image's last index, and its term.
func (g *image) last() (index, term uint64) {
	if len(g.terms) == 0 {
		return g.first - min(g.first, 1), 0
	}
	return g.first + uint64(len(g.terms)) - 1, g.terms[len(g.terms)-1]
}

func (g *image) add(e *storage.Entry, position int) {
	if e.Index < g.first || e.Index > g.first+uint64(len(g.terms)) || len(g.terms) == 0 {
		g.first, g.terms, g.positions = e.Index, nil, nil
	}
	n := e.Index - g.first
	g.terms = append(g.terms[:n], e.Term)
	g.positions = append(g.positions[:n], position)
}

// has reports whether the entry is in the log, synced if that is asked for.
func (g *image) has(f *folder, index, term uint64, synced bool) bool {
	if index < g.first {
		return true // trimmed: it was applied durably
	}
	at := index - g.first
	return at < uint64(len(g.terms)) && g.terms[at] == term && (!synced || g.positions[at] < f.synced)
}

// cut forgets entries at and after a position.
func (g *image) cut(end int) {
	for n := len(g.positions); n > 0 && g.positions[n-1] >= end; n-- {
		g.terms, g.positions = g.terms[:n-1], g.positions[:n-1]
	}
}
