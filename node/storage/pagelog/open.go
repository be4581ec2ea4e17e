package pagelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// ErrState refuses a State that no page log can have.
var ErrState = errors.New("the state of the page log makes no sense")

// Open opens the page log of a folder as it was when Sync gave state, or begins
// one when state is zero. Whatever else is in the folder is deleted. It calls
// visit, unless that is nil, with all pages in order, generation by generation,
// so that the owner can build the ends of the chains; damaged ones are reported
// and left out.
//
// Errors: ErrState, *SpaceError, and what the file system returns.
func Open(options Options, state State, visit func(ref Ref, shard uint16, id uint32)) (*Log, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	if err := state.check(); err != nil {
		return nil, err
	}
	l := &Log{options: options, kick: make(chan struct{}, 1), stop: make(chan struct{})}
	l.mu.buffers.active = make([]byte, 0, options.BufferBytes)
	l.mu.buffers.done = sync.NewCond(&l.mu)
	err := l.load(state)
	if err == nil {
		err = l.visitAll(visit)
	}
	if err != nil {
		for _, g := range l.mu.generations {
			err = errors.Join(err, l.release(g))
		}
		return nil, fmt.Errorf("open the page log in %s: %w", options.Dir, err)
	}
	l.stopped.Go(l.background)
	return l, nil
}

func (s State) check() error {
	for i, g := range s.Generations {
		extent := g.ExtentBytes
		switch {
		case extent < ExtentBytesMin || extent > GenerationBytesMax || extent&(extent-1) != 0,
			g.Bytes < extentHeaderBytes || g.Bytes > GenerationBytesMax || g.Bytes%pageAlign != 0,
			g.Number < 1,
			i > 0 && g.Number <= s.Generations[i-1].Number,
			i > 0 && g.Number-s.Generations[0].Number >= GenerationsMax:
			return fmt.Errorf("generation %d of %d bytes in extents of %d: %w", g.Number, g.Bytes, extent, ErrState)
		}
	}
	return nil
}

// load brings the folder into the state.
func (l *Log) load(state State) error {
	o := &l.options
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return err
	}
	if err := l.removeForeign(state); err != nil {
		return err
	}
	for i, gs := range state.Generations {
		// The current one may grow to the bound; the others are what they are.
		bytes := (gs.Bytes + gs.ExtentBytes - 1) / gs.ExtentBytes * gs.ExtentBytes
		current := i == len(state.Generations)-1
		if current {
			bytes = max(bytes, o.GenerationBytes/gs.ExtentBytes*gs.ExtentBytes)
		}
		g := newGeneration(gs.Number, gs.ExtentBytes, bytes)
		l.mu.generations = append(l.mu.generations, g)
		if err := l.loadGeneration(g, gs.Bytes, current); err != nil {
			return err
		}
	}
	if len(l.mu.generations) == 0 {
		g := newGeneration(1, o.ExtentBytes, o.GenerationBytes)
		first, err := makeExtent(o.FS, o.Dir, g.number, 0, g.extentBytes())
		if err != nil {
			return err
		}
		g.extents[0].Store(first)
		l.mu.generations = []*generation{g}
		l.mu.namesDirty = true
	}
	l.current.Store(l.currentLocked().number)
	l.mu.buffers.start = l.currentLocked().flushed.Load()
	return nil
}

// removeForeign deletes the extents that the state does not cover.
func (l *Log) removeForeign(state State) error {
	names, err := l.options.FS.List(l.options.Dir)
	if err != nil {
		return err
	}
	removed := false
	for _, name := range names {
		number, index, ok := parseExtentName(name)
		if !ok || state.covers(number, index) {
			continue
		}
		if err := l.options.Failpoints.Hit(FailpointOpenCut); err != nil {
			return err
		}
		if err := l.options.FS.Remove(path.Join(l.options.Dir, name)); err != nil {
			return err
		}
		removed = true
	}
	if removed {
		return l.options.FS.SyncDir(l.options.Dir)
	}
	return nil
}

func (s State) covers(number uint32, index int) bool {
	for _, g := range s.Generations {
		if g.Number == number {
			return int64(index)*g.ExtentBytes < g.Bytes
		}
	}
	return false
}

func (l *Log) loadGeneration(g *generation, bytes int64, current bool) error {
	for index := range g.extents {
		left := bytes - int64(index)<<g.shift
		if left <= 0 {
			break
		}
		e, err := l.loadExtent(g, index, min(left, g.extentBytes()), current && left <= g.extentBytes())
		if err != nil {
			return err
		}
		g.extents[index].Store(e)
	}
	g.flushed.Store(bytes)
	g.synced = bytes
	return nil
}

// loadExtent opens an extent and cuts it to its used bytes; one that will be
// appended to gets its blocks again. One that is missing becomes zeros, which the
// visit of its pages will report.
func (l *Log) loadExtent(g *generation, index int, used int64, grows bool) (*extent, error) {
	name := extentName(l.options.Dir, g.number, index)
	file, err := l.options.FS.OpenReadWrite(name)
	if errors.Is(err, fs.ErrNotExist) {
		l.mu.namesDirty = true
		return makeExtent(l.options.FS, l.options.Dir, g.number, index, g.extentBytes())
	}
	if err != nil {
		return nil, err
	}
	err = l.fitExtent(file, g, index, used, grows)
	var mapping *vfs.Mapping
	if err == nil {
		length := used
		if grows {
			length = g.extentBytes()
		}
		mapping, err = file.Map(length)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return newExtent(file, mapping), nil
}

func (l *Log) fitExtent(file vfs.File, g *generation, index int, used int64, grows bool) error {
	header := make([]byte, extentHeaderBytes)
	if _, err := file.ReadAt(header, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	ok, err := checkExtentHeader(file.Name(), header, g.number, index, g.extentBytes())
	if err != nil {
		return err
	}
	if !ok {
		l.corrupt(&CorruptError{File: file.Name(), Generation: g.number, Length: extentHeaderBytes})
	}
	size, err := file.Size()
	if err != nil {
		return err
	}
	if size != used {
		if err := l.options.Failpoints.Hit(FailpointOpenCut); err != nil {
			return err
		}
		if err := file.Truncate(used); err != nil {
			return err
		}
	}
	if !grows {
		return nil
	}
	err = file.Preallocate(g.extentBytes())
	if vfs.IsNoSpace(err) {
		// A full disk must not keep the pages from being read. If it is still full
		// when a page is written here, that write fails.
		err = file.Truncate(g.extentBytes())
	}
	return err
}

func (l *Log) visitAll(visit func(ref Ref, shard uint16, id uint32)) error {
	s := scanner{corrupt: l.corrupt, visit: func(ref Ref, page Page) error {
		if visit != nil {
			visit(ref, page.Shard, page.ID)
		}
		return nil
	}}
	for _, g := range l.mu.generations {
		if err := s.scan(g, g.flushed.Load()); err != nil {
			return err
		}
	}
	return nil
}
