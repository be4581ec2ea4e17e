package page

import (
	"sync"
	"syscall"
)

// Arena is memory for the chunks of many sets, mapped outside of the Go heap, so
// that the collector neither scans it nor lets as much garbage gather beside it.
// It grows as needed and keeps what sets give back for others. It may be used
// by several goroutines. The zero value is ready.
type Arena struct {
	mu struct {
		sync.Mutex
		rest   []byte   // of the newest region, not given out yet
		free   [][]byte // chunks given back
		mapped int
	}
}

// regionBytes is the unit of mapping. What is not used of it costs no memory.
const regionBytes = 4 << 20

// take gives chunkBytes of zeros.
func (a *Arena) take() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.mu.free); n > 0 {
		chunk := a.mu.free[n-1]
		a.mu.free = a.mu.free[:n-1]
		clear(chunk)
		return chunk
	}
	if len(a.mu.rest) == 0 {
		region, err := syscall.Mmap(-1, 0, regionBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil { // too many mappings, or a limit of address space: the heap says more clearly if it is memory
			return make([]byte, chunkBytes)
		}
		a.mu.rest = region
		a.mu.mapped += regionBytes
	}
	chunk := a.mu.rest[:chunkBytes:chunkBytes]
	a.mu.rest = a.mu.rest[chunkBytes:]
	return chunk
}

func (a *Arena) give(chunk []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.free = append(a.mu.free, chunk)
}

// Mapped gives the bytes mapped so far, those not used yet included.
func (a *Arena) Mapped() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.mapped
}
