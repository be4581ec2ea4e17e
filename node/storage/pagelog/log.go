package pagelog

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/failpoint"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Options say where a page log is and how large its files are.
type Options struct {
	FS  vfs.FS
	Dir string // made if missing; it belongs to the log alone
	// ExtentBytes is the size of a file: a power of two. 0 means ExtentBytesDefault.
	ExtentBytes int64
	// GenerationBytes bounds a generation: a multiple of ExtentBytes, up to
	// GenerationBytesMax. 0 means GenerationBytesDefault.
	GenerationBytes int64
	// BufferBytes is what is written at once: at least BufferBytesMin, 0 means
	// BufferBytesDefault. There are up to BuffersMax such buffers.
	BufferBytes int
	// Failpoints may be nil.
	Failpoints *failpoint.Set
	// OnCorrupt, if not nil, is called for damaged pages that Open, Read and Each meet.
	OnCorrupt func(*CorruptError)
}

// Defaults and bounds of Options.
const (
	ExtentBytesDefault     = 16 << 20
	ExtentBytesMin         = 16 << 10
	GenerationBytesDefault = 1 << 30
	BufferBytesDefault     = 256 << 10
	BufferBytesMin         = 8 << 10
	BuffersMax             = 8
)

// Names of the failpoints.
const (
	FailpointBeforeFlush = "pagelog/before-flush"
	FailpointAfterFlush  = "pagelog/after-flush"
	FailpointBeforeSync  = "pagelog/before-sync"
	FailpointAfterSync   = "pagelog/after-sync"
	FailpointRoll        = "pagelog/roll"
	FailpointDrop        = "pagelog/drop"
	FailpointOpenCut     = "pagelog/open-cut"
)

// Failpoints lists the names of the failpoints.
func Failpoints() []string {
	return []string{
		FailpointBeforeFlush, FailpointAfterFlush, FailpointBeforeSync, FailpointAfterSync,
		FailpointRoll, FailpointDrop, FailpointOpenCut,
	}
}

// State is what of a page log is durable.
type State struct {
	Generations []GenerationState // oldest first; the last one is being written
}

// GenerationState is the durable part of one generation.
type GenerationState struct {
	Number      uint32
	ExtentBytes int64
	Bytes       int64 // up to the end of its last durable page
}

// Log is an open page log. All its methods may be called from many goroutines.
// Locks are taken in the order admin → prepare → mu, and sync → mu.
type Log struct {
	options Options

	admin   sync.Mutex // serialises Roll, Drop and Close
	prepare sync.Mutex // serialises making extents
	sync    sync.Mutex // serialises Sync
	mu      struct {
		sync.Mutex
		generations []*generation // live, oldest first; the last one is current
		buffers     buffers
		namesDirty  bool // extents were made since the last SyncDir
		broken      error
		closed      bool
	}

	current  atomic.Uint32 // number of the current generation
	counters counters
	full     atomic.Int32 // buffers that WriteFull would write
	ending   atomic.Bool  // see Ending

	kick    chan struct{}
	stop    chan struct{}
	stopped sync.WaitGroup
}

type counters struct {
	pages, bytesWritten, flushes, syncs, corruptions, extentWaits atomic.Int64
}

func (l *Log) currentLocked() *generation { return l.mu.generations[len(l.mu.generations)-1] }

func (l *Log) writableLocked() error {
	if l.mu.closed {
		return ErrClosed
	}
	return l.mu.broken
}

// Append adds a page to the current generation and returns its place. The page can
// be read at once, and is durable after the next Sync.
//
// Errors: ErrPayload, ErrGenerationFull, *SpaceError, ErrBroken, ErrClosed. None
// of them leaves a page behind.
func (l *Log) Append(shard uint16, id uint32, previous Ref, payload []byte) (Ref, error) {
	if len(payload) == 0 || len(payload) > PayloadBytesMax {
		return 0, fmt.Errorf("a payload of %d bytes: %w", len(payload), ErrPayload)
	}
	page := Page{Shard: shard, ID: id, Previous: previous, Payload: payload}
	sum := payloadSum(payload)
	need := pageBytes(len(payload))
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		ready, err := l.roomLocked(need)
		if err != nil {
			return 0, err
		}
		if ready {
			break
		}
	}
	g, b := l.currentLocked(), &l.mu.buffers
	offset := b.start + int64(len(b.active))
	n := len(b.active)
	b.active = b.active[:n+need]
	clear(b.active[n+need-pageAlign:]) // the padding, before the payload
	putHeader(b.active[n:], g.number, offset, &page, sum)
	copy(b.active[n+pageHeaderBytes:], payload)
	l.counters.pages.Add(1)
	if offset >= g.ending() {
		l.ending.Store(true)
	}
	return makeRef(g.number, offset), nil
}

// roomLocked reports whether the active buffer has room for need bytes; if not it
// makes a step towards that, which may drop and re-take mu.
func (l *Log) roomLocked(need int) (bool, error) {
	if err := l.writableLocked(); err != nil {
		return false, err
	}
	g, b := l.currentLocked(), &l.mu.buffers
	at := b.start + int64(len(b.active))
	index, inExtent := g.locateEnd(at)
	if inExtent+int64(need) <= g.extentBytes() {
		if inExtent > g.extentBytes()/4*3 && g.asked <= index {
			g.asked = index + 1
			l.wake()
		}
		if len(b.active)+need <= cap(b.active) {
			return true, nil
		}
		return false, l.handOverLocked()
	}
	if index+1 >= len(g.extents) {
		return false, fmt.Errorf("generation %d: %w", g.number, ErrGenerationFull)
	}
	if len(b.active) > 0 {
		return false, l.handOverLocked()
	}
	if g.extents[index+1].Load() == nil {
		l.counters.extentWaits.Add(1)
		l.mu.Unlock()
		err := l.ensureExtent(g, index+1)
		l.mu.Lock()
		return false, err
	}
	b.start = int64(index+1)<<g.shift + extentHeaderBytes
	return false, nil
}

// wake asks the background for the next extent.
func (l *Log) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

func (l *Log) background() {
	for {
		select {
		case <-l.stop:
			return
		case <-l.kick:
		}
		l.mu.Lock()
		g := l.currentLocked()
		index := g.asked
		l.mu.Unlock()
		if index < len(g.extents) {
			_ = l.ensureExtent(g, index) // Append tries again, and reports it
		}
	}
}

// ensureExtent makes an extent of a generation, if the generation is still the
// current one and does not have it.
func (l *Log) ensureExtent(g *generation, index int) error {
	l.prepare.Lock()
	defer l.prepare.Unlock()
	l.mu.Lock()
	current := l.currentLocked() == g && !l.mu.closed
	l.mu.Unlock()
	if !current || g.extents[index].Load() != nil {
		return nil
	}
	e, err := makeExtent(l.options.FS, l.options.Dir, g.number, index, g.extentBytes())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.namesDirty = true
	g.extents[index].Store(e)
	return nil
}

// Sync makes all pages appended so far durable and returns the State with which
// Open finds them again. Errors: ErrBroken, ErrClosed.
func (l *Log) Sync() (State, error) {
	l.sync.Lock()
	defer l.sync.Unlock()
	if err := l.Flush(); err != nil {
		return State{}, err
	}
	pin := l.Pin()
	defer pin.Close()

	l.mu.Lock()
	var state State
	var dirty []*extent
	var live []*generation
	for _, g := range l.mu.generations {
		if pin.generations[g.number%(GenerationsMax+1)] != g {
			continue // rolled in since; the next Sync has it
		}
		end := g.flushed.Load()
		state.Generations = append(state.Generations, GenerationState{g.number, g.extentBytes(), end})
		live = append(live, g)
		first, _ := g.locate(g.synced)
		for i := first; g.synced < end && int64(i)<<g.shift < end; i++ {
			if e := g.extents[i].Load(); e != nil {
				dirty = append(dirty, e)
			}
		}
	}
	namesDirty := l.mu.namesDirty
	l.mu.namesDirty = false
	l.mu.Unlock()

	if name, err := l.syncExtents(dirty, namesDirty); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return State{}, l.breakLocked(name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, g := range live {
		g.synced = state.Generations[i].Bytes
	}
	return state, nil
}

func (l *Log) syncExtents(dirty []*extent, names bool) (name string, err error) {
	name = l.options.Dir
	if err := l.options.Failpoints.Hit(FailpointBeforeSync); err != nil {
		return name, err
	}
	for _, e := range dirty {
		if err := e.file.Sync(); err != nil {
			return e.file.Name(), err
		}
		l.counters.syncs.Add(1)
	}
	if names {
		if err := l.options.FS.SyncDir(l.options.Dir); err != nil {
			return name, err
		}
	}
	return name, l.options.Failpoints.Hit(FailpointAfterSync)
}

// Generations returns the numbers of the live generations, oldest first. The last
// one is the current one.
func (l *Log) Generations() []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	numbers := make([]uint32, len(l.mu.generations))
	for i, g := range l.mu.generations {
		numbers[i] = g.number
	}
	return numbers
}

// Stats is the state of a page log at one moment. Counters start with Open.
type Stats struct {
	Generations  int
	Extents      int // files of live generations, each mapped
	Bytes        int64
	Pages        int64 // appended
	BytesWritten int64
	Flushes      int64
	Syncs        int64 // of files
	Corruptions  int64 // damaged stretches met
	ExtentWaits  int64 // appends that had to wait for a new file
	BrokenErr    error // why the log takes no more writes
}

// Stats returns the present state.
func (l *Log) Stats() Stats {
	c := &l.counters
	s := Stats{
		Pages: c.pages.Load(), BytesWritten: c.bytesWritten.Load(), Flushes: c.flushes.Load(),
		Syncs: c.syncs.Load(), Corruptions: c.corruptions.Load(), ExtentWaits: c.extentWaits.Load(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.BrokenErr, s.Generations = l.mu.broken, len(l.mu.generations)
	for _, g := range l.mu.generations {
		s.Bytes += g.flushed.Load()
		for i := range g.extents {
			if g.extents[i].Load() != nil {
				s.Extents++
			}
		}
	}
	s.Bytes += l.mu.buffers.bytes()
	return s
}

func (o *Options) setDefaults() error {
	if o.ExtentBytes == 0 {
		o.ExtentBytes = ExtentBytesDefault
	}
	if o.GenerationBytes == 0 {
		o.GenerationBytes = max(GenerationBytesDefault/o.ExtentBytes, 1) * o.ExtentBytes
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = BufferBytesDefault
	}
	switch {
	case o.ExtentBytes < ExtentBytesMin || o.ExtentBytes > GenerationBytesMax || o.ExtentBytes&(o.ExtentBytes-1) != 0:
		return fmt.Errorf("page log extents of %d bytes: want a power of two from %d to %d", o.ExtentBytes, ExtentBytesMin, int64(GenerationBytesMax))
	case o.GenerationBytes < o.ExtentBytes || o.GenerationBytes > GenerationBytesMax || o.GenerationBytes%o.ExtentBytes != 0:
		return fmt.Errorf("page log generations of %d bytes: want a multiple of %d up to %d", o.GenerationBytes, o.ExtentBytes, int64(GenerationBytesMax))
	case o.BufferBytes < BufferBytesMin:
		return fmt.Errorf("page log buffers of %d bytes: want at least %d", o.BufferBytes, BufferBytesMin)
	}
	return nil
}

// Close flushes what is buffered and closes the files. What is pinned stays
// readable. Errors: ErrClosed; ErrBroken when pages could not be written.
func (l *Log) Close() error {
	l.admin.Lock()
	defer l.admin.Unlock()
	l.sync.Lock()
	defer l.sync.Unlock()
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	err := l.flushAllLocked()
	l.mu.closed = true
	live := slices.Clone(l.mu.generations)
	current := l.currentLocked()
	l.mu.Unlock()
	close(l.stop)
	l.stopped.Wait()
	if err == nil {
		current.flushed.Store(max(current.flushed.Load(), extentHeaderBytes))
		err = l.trimEnd(current) // Open takes that room again
	}
	l.prepare.Lock() // nobody makes an extent any more
	defer l.prepare.Unlock()
	errs := []error{err}
	for _, g := range live {
		errs = append(errs, l.release(g))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the page log in %s: %w", path.Clean(l.options.Dir), err)
	}
	return nil
}
