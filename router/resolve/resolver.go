package resolve

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/api/series"
)

const (
	stripesBits  = 5
	stripesCount = 1 << stripesBits

	// BytesMin is the least memory that a Resolver can be told to keep to.
	BytesMin = stripesCount * (ringBytesMin + ringBytesMin/2)

	chunkKeys = 256 // keys that are looked up together; their scratch is on the stack
)

// Resolver caches the ids of series that were written lately. It is safe for
// concurrent use.
type Resolver struct {
	seed       maphash.Seed
	stripes    [stripesCount]stripe
	generation atomic.Uint64

	// By shard: the era in the low half; in the high half the generation that began
	// when the era before it ended.
	eras   []atomic.Uint64
	change sync.Mutex // held while a shard's era ends

	hits, misses, stale, forgotten atomic.Uint64
}

// eraEnding is the era of a shard whose records are being removed.
const eraEnding = 1<<32 - 1

// New returns an empty Resolver for up to shards shards that uses at most about
// bytesMax of memory, and at least BytesMin.
func New(shards int, bytesMax int64) *Resolver {
	r := &Resolver{seed: maphash.MakeSeed(), eras: make([]atomic.Uint64, shards)}
	r.generation.Store(1)
	for i := range r.stripes {
		r.stripes[i].mu.seed = r.seed
		r.stripes[i].mu.bytesMax = max(bytesMax, BytesMin) / stripesCount
	}
	return r
}

// Generation grows when ids that were given before may no longer hold. It is never 0.
func (r *Resolver) Generation() uint64 { return r.generation.Load() }

// Era returns the era of a shard's ids that were resolved in a generation; 0: the shard
// had none. Not ok: ids of the shard have been forgotten since.
func (r *Resolver) Era(shard uint16, generation uint64) (era uint32, ok bool) {
	state := r.eras[shard].Load()
	return uint32(state), uint32(state) != eraEnding && state>>32 <= generation
}

// Resolve implements split.Resolver. It does not allocate. A Ref's Hint only says
// that the series was found.
func (r *Resolver) Resolve(hint uint32, keys []series.Key, refs []series.Ref) {
	for len(keys) > 0 {
		n := min(len(keys), chunkKeys)
		hint = r.resolveChunk(hint, keys[:n], refs[:n])
		keys, refs = keys[n:], refs[n:]
	}
}

// resolveChunk looks keys up stripe by stripe, so that the cache misses of one
// stripe's keys overlap and its lock is taken once.
func (r *Resolver) resolveChunk(hint uint32, keys []series.Key, refs []series.Ref) (last uint32) {
	var hashes [chunkKeys]uint64
	var order [chunkKeys]uint16
	var starts [stripesCount + 1]uint16
	for i, key := range keys {
		hashes[i] = maphash.Bytes(r.seed, key)
		starts[stripeOf(hashes[i])+1]++
	}
	for i := range stripesCount {
		starts[i+1] += starts[i]
	}
	next := starts
	for i := range keys {
		s := stripeOf(hashes[i])
		order[next[s]] = uint16(i)
		next[s]++
	}
	found := 0
	for s := range stripesCount {
		if which := order[starts[s]:starts[s+1]]; len(which) > 0 {
			found += r.stripes[s].find(which, &hashes, keys, refs)
		}
	}
	r.hits.Add(uint64(found))
	r.misses.Add(uint64(len(keys) - found))
	for i := range refs {
		if refs[i].Hint == series.HintNone {
			continue
		}
		// The splitter takes growing hints for series in the order of their creation,
		// and then asks for many at once.
		if hint++; hint == series.HintNone {
			hint = 0
		}
		refs[i].Hint = hint
	}
	return hint
}

func stripeOf(hash uint64) int { return int(hash >> (64 - stripesBits)) }

// Learn remembers the id that a key has in an era of its shard. An era that is newer
// than the shard's last one ends that; an older one is not learnt.
func (r *Resolver) Learn(key series.Key, shard uint16, id series.ID, era uint32) {
	if id > series.IDMax || era == 0 || era == eraEnding || len(key) > series.KeyBytesMax {
		return
	}
	if now := uint32(r.eras[shard].Load()); now != era {
		if now == eraEnding || era < now || !r.enter(shard, era) {
			r.stale.Add(1)
			return
		}
	}
	hash := maphash.Bytes(r.seed, key)
	// Under the stripe's lock, so that Forget finds the record, or Learn the new era.
	if !r.stripes[stripeOf(hash)].learn(hash, key, shard, id, func() bool { return uint32(r.eras[shard].Load()) == era }) {
		r.stale.Add(1)
	}
}

// enter makes era the shard's era if it is not older than the present one.
func (r *Resolver) enter(shard uint16, era uint32) bool {
	r.change.Lock()
	defer r.change.Unlock()
	state := r.eras[shard].Load()
	switch now := uint32(state); {
	case now == era:
	case now == 0: // there are no ids that could be mistaken
		r.eras[shard].Store(state | uint64(era))
	case now < era:
		r.endLocked(shard, era)
	default:
		return false
	}
	return true
}

// Forget forgets the ids of a shard if they are still those of era: a node has said
// that they are of another one.
func (r *Resolver) Forget(shard uint16, era uint32) {
	r.change.Lock()
	defer r.change.Unlock()
	if uint32(r.eras[shard].Load()) == era {
		r.endLocked(shard, 0)
	}
}

// endLocked ends a shard's era; change is held. Steps and their order: see the
// package's doc.
func (r *Resolver) endLocked(shard uint16, next uint32) {
	generation := r.generation.Load() + 1
	r.eras[shard].Store(generation<<32 | eraEnding)
	for i := range r.stripes {
		r.forgotten.Add(uint64(r.stripes[i].forget(shard)))
	}
	r.generation.Store(generation)
	r.eras[shard].Store(generation<<32 | uint64(next))
}

// Stats are a Resolver's figures.
type Stats struct {
	Hits, Misses uint64 // keys that were asked for
	Stale        uint64 // ids that were not learnt because their era has ended
	Forgotten    uint64 // series whose shard's era has ended
	Evicted      uint64 // series that made room
	Series       int64  // now
	Bytes        int64  // of memory now
}

// Stats returns the figures.
func (r *Resolver) Stats() Stats {
	s := Stats{Hits: r.hits.Load(), Misses: r.misses.Load(), Stale: r.stale.Load(), Forgotten: r.forgotten.Load()}
	for i := range r.stripes {
		r.stripes[i].addStats(&s)
	}
	return s
}

// String returns the figures for people.
func (s Stats) String() string {
	return fmt.Sprintf("%d series in %d bytes, %d hits, %d misses, %d evicted", s.Series, s.Bytes, s.Hits, s.Misses, s.Evicted)
}
