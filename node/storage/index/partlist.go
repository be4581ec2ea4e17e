package index

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	// buildSeries bounds a part as it is built, and so how long a query may wait
	// for one: some 20 ms on a small board.
	buildSeries = 1 << 15
	// loadSeries is the same while opening, when nobody waits.
	loadSeries = 1 << 17
	// mergeNowSeries bounds the merges that a query does itself.
	mergeNowSeries = 1 << 13
	// mergeSeries and mergeBytes bound a part: the work and the garbage of one merge.
	mergeSeries = 1 << 22
	mergeBytes  = 1 << 30
	// A part is merged with all that come after it once these are so many times
	// its size: each series is merged once for each power of the factor plus 1.
	mergeFactor = 3
	// wakeSeries is how many new series wake the worker.
	wakeSeries = 1 << 13
	// shrinkSeries is how many dropped ones are worth another part.
	shrinkSeries = 1 << 10
)

// partList is the parts in the order of local ids, without gaps, and the worker
// that makes and merges them.
type partList struct {
	keys    *keyFile
	damaged func(error) // told of parts that are rotten
	parts   atomic.Pointer[[]*part]
	wake    chan struct{}
	quit    chan struct{}
	done    chan struct{}

	mu struct {
		sync.Mutex
		builder *builder // kept while there is work
	}
	merging sync.Mutex // taken before mu: one large merge at a time
}

func newPartList(keys *keyFile, damaged func(error)) *partList {
	l := &partList{
		keys: keys, damaged: damaged, wake: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	l.parts.Store(&[]*part{})
	return l
}

func (l *partList) start() {
	go l.work()
	l.notify()
}

func (l *partList) stop() {
	close(l.quit)
	<-l.done
}

func (l *partList) notify() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake, and will look again
	}
}

// added describes a new series.
func (l *partList) added(local uint32) {
	if local%wakeSeries == wakeSeries-1 {
		l.notify()
	}
}

// end returns the first local id that no part covers.
func (l *partList) end() uint32 {
	parts := *l.parts.Load()
	if len(parts) == 0 {
		return 0
	}
	return parts[len(parts)-1].hi
}

// buildMissing makes the parts of all series that none of the parts has. It is for Open.
func (l *partList) buildMissing(workers int) error {
	mapped := *l.parts.Load()
	count := l.keys.count.Load()
	var parts []*part
	end := uint32(0)
	missing := func(to uint32) {
		for ; end < to; end = parts[len(parts)-1].hi {
			parts = append(parts, &part{lo: end, hi: end + min(to-end, loadSeries)})
		}
	}
	for _, p := range mapped {
		missing(p.lo)
		parts, end = append(parts, p), p.hi
	}
	missing(count)
	err := parallel(workers, len(parts), func(i int) (err error) {
		if p := parts[i]; p.held.mapping == nil {
			parts[i], err = newBuilder().build(l.keys, p.lo, p.hi)
		}
		return err
	})
	if err == nil {
		l.parts.Store(&parts)
	}
	return err
}

// replace puts a part that is mapped in the place of one with the same content, unless that is being
// merged or was.
func (l *partList) replace(p, mapped *part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	parts := slices.Clone(*l.parts.Load())
	at := slices.Index(parts, p)
	if at < 0 || p.busy {
		_ = mapped.held.close() // nobody has seen it
		return
	}
	parts[at] = mapped
	l.parts.Store(&parts)
}

// errDamagedPosting is what the reader of a posting panics with.
var errDamagedPosting = errors.New("a posting has more series than a part")

// readAttempts bounds how often a read begins again as parts were rotten. Each attempt puts memory in the
// place of at least one of them.
const readAttempts = 8

// read runs read with parts that cover at least all series created before the call, and keeps them until
// it ends. Should parts that are mapped not be what they were, they are built again from the keys, and read
// begins anew. Errors besides those of read: *CorruptError, *vfs.FaultError.
func (l *partList) read(read func(parts []*part) error) error {
	for attempt := 1; ; attempt++ {
		var rotten []*part
		parts, err := l.current()
		if err == nil {
			rotten, err = readParts(parts, func() error { return read(parts) })
		}
		var fault *vfs.FaultError
		switch {
		case attempt == readAttempts:
			return err
		case len(rotten) > 0:
			if err := l.rebuild(rotten); err != nil {
				return err
			}
		case !errors.As(err, &fault) || !l.keys.healAll():
			return err
		}
	}
}

// rebuild puts parts in memory, built from the keys, in the place of mapped ones that are rotten. The next
// Sync writes other files. Errors: *vfs.FaultError.
func (l *partList) rebuild(rotten []*part) error {
	l.merging.Lock() // so that none of them is being merged
	defer l.merging.Unlock()
	return l.rebuildMerging(rotten)
}

// rebuildMerging is rebuild for who holds merging.
func (l *partList) rebuildMerging(rotten []*part) error {
	l.keys.healAll() // it is about to read all of it
	l.mu.Lock()
	defer l.mu.Unlock()
	b := newBuilder()
	for _, p := range rotten {
		at := slices.Index(*l.parts.Load(), p)
		if at < 0 {
			continue // another reader was faster
		}
		l.damaged(&CorruptError{File: p.held.mapping.Name(), What: fmt.Sprintf(
			"it reads otherwise than before: the postings of series %d to %d are built again from the keys", p.lo, p.hi-1)})
		var split []*part
		for lo := p.lo; lo < p.hi; {
			next, err := b.build(l.keys, lo, lo+min(p.hi-lo, loadSeries))
			if err != nil {
				return err
			}
			split, lo = append(split, next), next.hi
		}
		parts := slices.Replace(slices.Clone(*l.parts.Load()), at, at+1, split...)
		l.parts.Store(&parts)
	}
	return nil
}

// current returns parts that cover at least all series created before the call.
// Errors: *vfs.FaultError.
func (l *partList) current() ([]*part, error) {
	count := l.keys.count.Load()
	for l.end() < count {
		if _, err := l.buildNext(count); err != nil {
			return nil, err
		}
		l.notify() // larger merges are the worker's
	}
	return *l.parts.Load(), nil
}

// buildNext makes at most one part of series below count that have none.
func (l *partList) buildNext(count uint32) (built bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lo := l.end()
	if lo >= count {
		return false, nil
	}
	if l.mu.builder == nil {
		l.mu.builder = newBuilder()
	}
	p, err := l.mu.builder.build(l.keys, lo, lo+min(count-lo, buildSeries))
	if err != nil {
		return false, err
	}
	parts := append(slices.Clone(*l.parts.Load()), p)
	idle := 0 // parts before it are being merged
	for i, p := range parts {
		if p.busy {
			idle = i + 1
		}
	}
	if first, ok := mergeable(parts[idle:], mergeNowSeries); ok {
		if merged, _, err := merge(parts[idle+first:], l.keys.dropped); err == nil {
			parts = append(parts[:idle+first], merged)
		}
	}
	l.parts.Store(&parts)
	return true, nil
}

// mergeable finds the first part that should be merged with all after it, when
// together they have at most seriesMax series.
func mergeable(parts []*part, seriesMax uint32) (first int, ok bool) {
	var size, bytes uint64
	for i, p := range slices.Backward(parts) {
		size += uint64(p.size())
		bytes += uint64(len(p.data))
		if size > uint64(seriesMax) || bytes > mergeBytes {
			break
		}
		if after := size - uint64(p.size()); after >= mergeFactor*uint64(p.size()) {
			first, ok = i, true
		}
	}
	return first, ok
}

// work is the worker's life: it builds and merges until there is nothing to do.
func (l *partList) work() {
	defer close(l.done)
	for {
		select {
		case <-l.quit:
			return
		case <-l.wake:
		}
		for l.step() {
			select {
			case <-l.quit:
				return
			default:
			}
		}
		l.mu.Lock()
		l.mu.builder = nil
		l.mu.Unlock()
	}
}

// step builds a part if many series have none, or else merges. It returns false
// when nothing is to be done, or the keys cannot be read: queries then say so.
func (l *partList) step() bool {
	end := l.end()
	if count := l.keys.count.Load(); count-end >= wakeSeries {
		built, err := l.buildNext(count)
		return built && err == nil
	}
	return l.mergeNext()
}

// shrinks reports whether at least half of the series that a part was made of are dropped since.
func (l *partList) shrinks(p *part) bool {
	gone := l.keys.droppedBetween(p.lo, p.hi) - p.dropped
	return gone >= shrinkSeries && gone >= (int(p.size())-p.dropped)/2
}

// mergeNext merges once, or makes a part again without the series that are dropped, without keeping queries from building.
func (l *partList) mergeNext() bool {
	l.merging.Lock()
	defer l.merging.Unlock()
	l.mu.Lock()
	parts := *l.parts.Load()
	first, ok := mergeable(parts, mergeSeries)
	old := parts[first:]
	if !ok {
		first = slices.IndexFunc(parts, l.shrinks)
		if first < 0 {
			l.mu.Unlock()
			return false
		}
		old = parts[first : first+1]
	}
	for _, p := range old {
		p.busy = true
	}
	l.mu.Unlock()

	merged, rotten, err := merge(old, l.keys.dropped)

	l.mu.Lock()
	if err != nil {
		for _, p := range old {
			p.busy = false
		}
		l.mu.Unlock()
		return len(rotten) > 0 && l.rebuildMerging(rotten) == nil // queries of what cannot be read say so
	}
	defer l.mu.Unlock()
	parts = *l.parts.Load()
	next := slices.Concat(parts[:first], []*part{merged}, parts[first+len(old):])
	l.parts.Store(&next)
	return true
}
