package pagelog

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
)

func newGeneration(number uint32, extentBytes, generationBytes int64) *generation {
	g := &generation{
		number: number, shift: uint(bits.TrailingZeros64(uint64(extentBytes))), holders: 1,
		extents: make([]atomic.Pointer[extent], generationBytes/extentBytes),
	}
	g.flushed.Store(extentHeaderBytes)
	return g
}

// Roll ends the current generation, begins the next one, and returns the number of
// the one that ended. Errors: ErrTooManyGenerations, *SpaceError, ErrBroken,
// ErrClosed.
func (l *Log) Roll() (uint32, error) {
	l.admin.Lock()
	defer l.admin.Unlock()
	l.mu.Lock()
	err := l.writableLocked()
	live := len(l.mu.generations)
	old := l.currentLocked()
	oldest := l.mu.generations[0].number
	l.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case live >= GenerationsMax || old.number+1-oldest > GenerationsMax:
		return 0, fmt.Errorf("%d generations: %w", live, ErrTooManyGenerations)
	}
	next := newGeneration(old.number+1, l.options.ExtentBytes, l.options.GenerationBytes)
	first, err := makeExtent(l.options.FS, l.options.Dir, next.number, 0, next.extentBytes())
	if err != nil {
		return 0, err
	}
	next.extents[0].Store(first)
	if err := l.replaceCurrent(old, next); err != nil {
		return 0, errors.Join(err, l.discard(next))
	}
	if err := l.trimEnd(old); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.breakLocked(l.options.Dir, err) // the next Append reports it
	}
	return old.number, nil
}

// replaceCurrent writes what is buffered and makes next the current generation.
func (l *Log) replaceCurrent(old, next *generation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.mu.buffers
	for b.bytes() > 0 {
		if err := l.flushAllLocked(); err != nil {
			return err
		}
	}
	if err := l.options.Failpoints.Hit(FailpointRoll); err != nil {
		return l.breakLocked(extentName(l.options.Dir, next.number, 0), err)
	}
	old.flushed.Store(b.start)
	b.start = extentHeaderBytes
	l.mu.namesDirty = true
	l.mu.generations = append(slices.Clip(l.mu.generations), next)
	l.current.Store(next.number)
	l.ending.Store(false)
	return nil
}

// endingShare is the part of a generation that is left when it is ending.
const endingShare = 32

// ending returns the offset from which on a generation is ending.
func (g *generation) ending() int64 {
	bound := int64(len(g.extents)) << g.shift
	return bound - bound/endingShare
}

// Ending reports whether the current generation has little room left, so that who must not wait
// later does well to Roll now.
func (l *Log) Ending() bool { return l.ending.Load() }

// discard closes and removes the files of a generation that nobody else knows.
func (l *Log) discard(g *generation) error {
	return errors.Join(l.removeFiles(g, 0), l.release(g))
}

// removeFiles removes the extents of a generation from an index on.
func (l *Log) removeFiles(g *generation, from int) error {
	var errs []error
	for i := from; i < len(g.extents); i++ {
		if g.extents[i].Load() != nil {
			errs = append(errs, l.options.FS.Remove(extentName(l.options.Dir, g.number, i)))
		}
	}
	return errors.Join(errs...)
}

// trimEnd frees the space that an ended generation has taken ahead.
func (l *Log) trimEnd(g *generation) error {
	l.prepare.Lock() // no extent is being made for it any more
	defer l.prepare.Unlock()
	last, used := g.locateEnd(g.flushed.Load())
	err := l.removeFiles(g, last+1)
	for i := last + 1; i < len(g.extents); i++ {
		if e := g.extents[i].Swap(nil); e != nil {
			err = errors.Join(err, e.close())
		}
	}
	return errors.Join(err, g.extents[last].Load().file.Truncate(used))
}

// Link links the files of the generations that have ended, from the number oldest on, into an empty folder,
// and returns the State with which Open finds them there, before an empty generation. None of these may be dropped
// meanwhile. What is linked need not be durable.
func (l *Log) Link(dir string, oldest uint32) (State, error) {
	l.admin.Lock()
	defer l.admin.Unlock()
	l.mu.Lock()
	generations, closed := l.mu.generations, l.mu.closed
	l.mu.Unlock()
	if closed {
		return State{}, ErrClosed
	}
	var state State
	ended, current := generations[:len(generations)-1], generations[len(generations)-1]
	for _, g := range ended {
		if int32(g.number-oldest) < 0 {
			continue
		}
		for i := range g.extents {
			if g.extents[i].Load() == nil {
				continue
			}
			if err := l.options.FS.Link(extentName(l.options.Dir, g.number, i), extentName(dir, g.number, i)); err != nil {
				return State{}, err
			}
		}
		state.Generations = append(state.Generations, GenerationState{g.number, g.extentBytes(), g.flushed.Load()})
	}
	state.Generations = append(state.Generations, GenerationState{current.number, ExtentBytesMin, extentHeaderBytes})
	return state, nil
}

// Drop removes a generation, once nobody holds it. It must not be named by the
// State that the owner's manifest has. Errors: ErrNoGeneration for one that is
// not live or is the current one; ErrClosed.
func (l *Log) Drop(number uint32) error {
	l.admin.Lock()
	defer l.admin.Unlock()
	l.mu.Lock()
	index := slices.IndexFunc(l.mu.generations, func(g *generation) bool { return g.number == number })
	closed := l.mu.closed
	if closed || index < 0 || index == len(l.mu.generations)-1 {
		l.mu.Unlock()
		if closed {
			return ErrClosed
		}
		return fmt.Errorf("drop generation %d: %w", number, ErrNoGeneration)
	}
	g := l.mu.generations[index]
	l.mu.generations = slices.Delete(slices.Clone(l.mu.generations), index, index+1)
	l.mu.Unlock()
	// The files lose their names now and their blocks with the last holder.
	return errors.Join(l.options.Failpoints.Hit(FailpointDrop), l.removeFiles(g, 0), l.release(g))
}
