package vfs

import (
	"os"
	"sync/atomic"
	"unsafe"
)

// Advice is a hint to the kernel how a mapping will be read.
type Advice uint8

// The kinds of Advice. They change speed, never results.
const (
	AdviceNormal   Advice = iota // read ahead as usual
	AdviceRandom                 // do not read ahead
	AdviceWillNeed               // start to read now
	AdviceDontNeed               // drop the pages from this process; they are read again on use
)

// Mapping is a read-only shared mapping of the start of a file. It is counted:
// it begins with one reference, Retain adds one, Close releases one, and the
// last Close unmaps. Bytes must not be touched after that.
type Mapping struct {
	bytes   []byte
	name    string
	holders atomic.Int64
	unmap   func([]byte) error
	advise  func([]byte, Advice) error
}

func newMapping(name string, b []byte, unmap func([]byte) error, advise func([]byte, Advice) error) *Mapping {
	m := &Mapping{bytes: b, name: name, unmap: unmap, advise: advise}
	m.holders.Store(1)
	return m
}

// Bytes returns the mapped bytes. Reads belong inside Guard.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Name returns the name of the mapped file.
func (m *Mapping) Name() string { return m.name }

// Retain adds a reference. It returns false, and adds none, when the last
// reference is already gone.
func (m *Mapping) Retain() bool {
	for {
		n := m.holders.Load()
		if n <= 0 {
			return false
		}
		if m.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Close releases one reference; the last one unmaps. A Close too many panics:
// somebody may be reading memory that is no longer theirs.
func (m *Mapping) Close() error {
	switch n := m.holders.Add(-1); {
	case n > 0:
		return nil
	case n < 0:
		panic("vfs: mapping of " + m.name + " closed more often than retained")
	}
	b := m.bytes
	m.bytes = nil
	return m.unmap(b)
}

// Advise passes a hint about the bytes [offset, offset+length) to the kernel.
// The range is widened to whole blocks and cut to the mapping.
func (m *Mapping) Advise(offset, length int64, advice Advice) error {
	end := min(offset+length, int64(len(m.bytes)))
	offset = max(offset, 0) &^ (BlockBytes - 1)
	if m.advise == nil || offset >= end {
		return nil
	}
	return m.advise(m.bytes[offset:end], advice)
}

// Guard is the function Guard for reads of this mapping: a fault at an address
// of the mapping becomes a *FaultError that names the file, any other fault stays
// a panic.
func (m *Mapping) Guard(read func(mapped []byte) error) (err error) {
	defer restoreFault(setFault(), &err, m)
	return read(m.bytes)
}

func (m *Mapping) contains(address uintptr) bool {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(m.bytes)))
	page := uintptr(os.Getpagesize()) // the last page of a mapping reaches beyond its bytes
	return address >= start && address < start+(uintptr(len(m.bytes))+page-1)&^(page-1)
}
