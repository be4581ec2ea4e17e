package page

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
)

// Arena is memory for the chunks of many sets, mapped outside of the Go heap, so
// that the collector neither scans it nor lets as much garbage gather beside it.
// It grows as needed and keeps what sets give back for others. It may be used
// by several goroutines. The zero value is ready.
type Arena struct {
	mu struct {
		sync.Mutex
		rest    []byte   // of the newest region, not given out yet
		free    [][]byte // chunks given back
		idle    [][]byte // those of them whose memory the system has
		regions [][]byte
	}
	taken atomic.Int64 // chunks given out and not given back; changes under mu
}

// ErrArenaInUse is returned when an arena is closed before the sets that use it.
var ErrArenaInUse = errors.New("sets still use the arena of hot pages")

// regionBytes is the unit of mapping. What is not used of it costs no memory.
const regionBytes = 4 << 20

// take returns chunkBytes of zeros.
func (a *Arena) take() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken.Add(1)
	if n := len(a.mu.free); n > 0 {
		chunk := a.mu.free[n-1]
		a.mu.free = a.mu.free[:n-1]
		clear(chunk)
		return chunk
	}
	if n := len(a.mu.idle); n > 0 {
		chunk := a.mu.idle[n-1]
		a.mu.idle = a.mu.idle[:n-1]
		return chunk // the system has cleared it
	}
	if len(a.mu.rest) == 0 {
		region, err := syscall.Mmap(-1, 0, regionBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil { // too many mappings, or a limit of address space: the heap says more clearly if it is memory
			return make([]byte, chunkBytes)
		}
		a.mu.rest = region
		a.mu.regions = append(a.mu.regions, region)
	}
	chunk := a.mu.rest[:chunkBytes:chunkBytes]
	a.mu.rest = a.mu.rest[chunkBytes:]
	return chunk
}

func (a *Arena) give(chunk []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.free = append(a.mu.free, chunk)
	a.taken.Add(-1)
}

// Bytes returns the memory that sets have.
func (a *Arena) Bytes() int64 { return a.taken.Load() * chunkBytes }

// Trim returns memory that no set has to the system, until at most so many bytes of it are
// kept. Chunks that the system does not take, as its pages are larger, stay.
func (a *Arena) Trim(keepBytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for int64(len(a.mu.free))*chunkBytes > keepBytes {
		last := len(a.mu.free) - 1
		chunk := a.mu.free[last]
		if syscall.Madvise(chunk, syscall.MADV_DONTNEED) != nil {
			return
		}
		a.mu.free = a.mu.free[:last]
		a.mu.idle = append(a.mu.idle, chunk)
	}
}

// Mapped returns the bytes mapped so far, those not used yet included.
func (a *Arena) Mapped() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.mu.regions) * regionBytes
}

// Close returns all memory to the system, after all sets that use it were closed;
// before, it does nothing and returns ErrArenaInUse. A closed arena may be used again.
// Other errors are those of the system.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.taken.Load(); n > 0 {
		return fmt.Errorf("%w: %d chunks", ErrArenaInUse, n)
	}
	var problems []error
	for _, region := range a.mu.regions {
		if err := syscall.Munmap(region); err != nil {
			problems = append(problems, fmt.Errorf("unmap memory of hot pages: %w", err))
		}
	}
	a.mu.rest, a.mu.free, a.mu.idle, a.mu.regions = nil, nil, nil, nil
	return errors.Join(problems...)
}
