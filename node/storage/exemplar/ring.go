package exemplar

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
)

// BoundMax is the greatest bound of a ring, in bytes.
const BoundMax = 64 << 20

// Reasons why an exemplar is not kept, besides series.ErrExemplar.
var (
	ErrOff        = errors.New("exemplars are not kept: there is no room for any")
	ErrDuplicate  = errors.New("the exemplar is the newest one of its series already")
	ErrOutOfOrder = errors.New("the exemplar is older than the newest one of its series")
)

// Ring keeps the newest exemplars. When it is full, the database that holds most makes room, by those of its exemplars that
// came first: a database with less than an equal share loses none to others. The zero Ring is empty.
type Ring struct {
	entry     uint64 // the last one that changed it
	bound     int64  // of bytes
	bytes     int64  // of what is kept
	count     int    // of exemplars
	databases []*queue
	evicted   int64 // that made room, since the ring was made or read
	newest    map[string]*newest
}

// queue has the exemplars of a database, in the order in which they came.
type queue struct {
	database string
	bytes    int64
	first    int // index in kept of the exemplar that came first
	kept     []series.Exemplar
}

// all returns the exemplars, which the queue shares.
func (q *queue) all() []series.Exemplar { return q.kept[q.first:] }

// newest is what Add must know of a series.
type newest struct {
	key      series.Key // which the series' exemplars share
	exemplar series.Exemplar
	count    int // of the series' exemplars in the ring
}

// Entry returns the last entry that changed the ring: those up to it must not be applied to it again.
func (r *Ring) Entry() uint64 { return r.entry }

// Note notes that an entry has changed the ring.
func (r *Ring) Note(entry uint64) { r.entry = entry }

// Len returns how many exemplars are kept.
func (r *Ring) Len() int { return r.count }

// Bytes returns about how much memory they take.
func (r *Ring) Bytes() int64 { return r.bytes }

// Bound returns the bound of the last Add.
func (r *Ring) Bound() int64 { return r.bound }

// Evicted returns how many exemplars have made room for others.
func (r *Ring) Evicted() int64 { return r.evicted }

// bytesOf returns about how much memory an exemplar takes, its key and what is known of its series included, though
// exemplars of a series share these.
func bytesOf(e *series.Exemplar) int64 {
	const exemplarBytes, seriesBytes, labelBytes = 80, 240, 32
	bytes := exemplarBytes + seriesBytes + len(e.Key)
	for i := range e.Labels {
		bytes += labelBytes + len(e.Labels[i].Name) + len(e.Labels[i].Value)
	}
	return int64(bytes)
}

// Check returns the error with which Add would refuse e; newer are the newest exemplars of series that come before e, by
// key, and may be nil.
func (r *Ring) Check(bound int64, e *series.Exemplar, newer map[string]*series.Exemplar) error {
	if bytesOf(e) > min(bound, BoundMax) {
		return ErrOff
	}
	if err := e.Check(); err != nil {
		return err
	}
	last := newer[string(e.Key)]
	if last == nil {
		n, ok := r.newest[string(e.Key)]
		if !ok {
			return nil
		}
		last = &n.exemplar
	}
	switch c := e.Compare(last); {
	case c == 0:
		return ErrDuplicate
	case c < 0:
		return ErrOutOfOrder
	}
	return nil
}

// Add keeps a copy of e, whose labels must not change, in a ring of so many bytes, at most BoundMax. A bound that differs
// from the last one applies to what is kept, too. The error is one of this package, or series.ErrExemplar.
func (r *Ring) Add(bound int64, e series.Exemplar) error {
	r.bound = min(max(bound, 0), BoundMax)
	r.evict()
	if err := r.Check(r.bound, &e, nil); err != nil {
		return err
	}
	r.push(e)
	r.evict()
	return nil
}

func (r *Ring) push(e series.Exemplar) {
	n, ok := r.newest[string(e.Key)]
	if !ok {
		if r.newest == nil {
			r.newest = map[string]*newest{}
		}
		n = &newest{key: slices.Clone(e.Key)}
		r.newest[string(e.Key)] = n
	}
	e.Key = n.key
	n.exemplar = e
	n.count++
	q := r.queueOf(e.Key)
	q.kept = append(q.kept, e)
	q.bytes += bytesOf(&e)
	r.bytes += bytesOf(&e)
	r.count++
}

// queueOf returns the queue of a key's database.
func (r *Ring) queueOf(key series.Key) *queue {
	database, _, _, _ := key.Head()
	at, found := slices.BinarySearchFunc(r.databases, string(database), func(q *queue, name string) int { return cmp.Compare(q.database, name) })
	if !found {
		r.databases = slices.Insert(r.databases, at, &queue{database: string(database)})
	}
	return r.databases[at]
}

// evict removes exemplars until the others are within the bound: the first of the database that holds most, of the first by name
// where several do, so that all replicas agree.
func (r *Ring) evict() {
	for r.bytes > r.bound {
		at := 0
		for i, q := range r.databases {
			if q.bytes > r.databases[at].bytes {
				at = i
			}
		}
		r.pop(r.databases[at])
		r.evicted++
		if r.databases[at].bytes == 0 {
			r.databases = slices.Delete(r.databases, at, at+1)
		}
	}
}

// pop removes the exemplar of a database that came first.
func (r *Ring) pop(q *queue) {
	e := &q.kept[q.first]
	q.bytes -= bytesOf(e)
	r.release(e)
	*e = series.Exemplar{}
	q.first++
	if q.first > len(q.kept)/2 {
		n := copy(q.kept, q.kept[q.first:])
		clear(q.kept[n:])
		q.kept, q.first = q.kept[:n], 0
	}
}

// release notes that an exemplar goes.
func (r *Ring) release(e *series.Exemplar) {
	r.bytes -= bytesOf(e)
	r.count--
	n := r.newest[string(e.Key)]
	if n.count--; n.count == 0 {
		delete(r.newest, string(e.Key))
	}
}

// Remove removes exemplars and returns how many they were.
func (r *Ring) Remove(gone func(*series.Exemplar) bool) int {
	found := false
	for _, q := range r.databases {
		found = found || slices.ContainsFunc(q.all(), func(e series.Exemplar) bool { return gone(&e) })
	}
	if !found {
		return 0
	}
	before := *r
	*r = Ring{entry: before.entry, bound: before.bound, evicted: before.evicted}
	for _, q := range before.databases {
		for _, e := range q.all() {
			if !gone(&e) {
				r.push(e)
			}
		}
	}
	return before.count - r.count
}

// Between returns the exemplars from a time to another, both inclusive, by key
// and then in ascending time. Keys and labels are shared with the ring, which does not change them.
func (r *Ring) Between(fromMs, toMs int64) []series.Exemplar {
	var found []series.Exemplar
	for _, q := range r.databases {
		for _, e := range q.all() {
			if fromMs <= e.TimeMs && e.TimeMs <= toMs {
				found = append(found, e)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b series.Exemplar) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	return found
}
