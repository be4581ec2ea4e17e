package storage

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// generationsWaitingMax is how many ended generations of the page log may wait for
	// a flush before writers wait. It leaves room for what is on its way: when there
	// are pagelog.GenerationsMax, entries stall and writes are refused.
	generationsWaitingMax = 8
	// paceWait bounds the wait of one writer.
	paceWait = 5 * time.Second
)

// pace makes writers wait for flushes that do not keep up with them.
type pace struct {
	waiting atomic.Int32 // generations that have ended and are not flushed
	mu      struct {
		sync.Mutex
		fewer   chan struct{} // closed when there are fewer or flushes fail; nil: nobody waits
		failing bool          // the last flush failed
	}
}

// ended notes that a generation has ended.
func (p *pace) ended() { p.waiting.Add(1) }

// flushed notes that a generation that had ended is flushed.
func (p *pace) flushed() {
	p.waiting.Add(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tellLocked()
}

// ran notes how a flush went. While flushes fail nobody waits for them: writers are to
// hear why, which is when the page log takes no more.
func (p *pace) ran(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.failing = err != nil; p.mu.failing {
		p.tellLocked()
	}
}

func (p *pace) tellLocked() {
	if p.mu.fewer != nil {
		close(p.mu.fewer)
		p.mu.fewer = nil
	}
}

// next returns what is closed when there are fewer generations, or nil when they are
// few or waiting is in vain.
func (p *pace) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.failing || p.waiting.Load() < generationsWaitingMax {
		return nil
	}
	if p.mu.fewer == nil {
		p.mu.fewer = make(chan struct{})
	}
	return p.mu.fewer
}
