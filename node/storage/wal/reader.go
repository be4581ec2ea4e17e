package wal

import (
	"errors"
	"io"
	"sync"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	chunkBytes = 1 << 20
	chunksMax  = 3 // one being read, one waiting, one being parsed
)

// reader provides the bytes of a file from front to back, reading ahead on its own
// goroutine. It must be closed.
type reader struct {
	file  vfs.File
	limit int64 // bytes of the file that there are
	holes bool  // read what the disk cannot read as zeros

	chunk []byte
	start int64 // of chunk in the file
	spill []byte

	ahead   chan chunk
	free    chan []byte
	stop    chan struct{}
	stopped sync.WaitGroup
	err     error
}

type chunk struct {
	bytes []byte
	err   error
}

// newReader reads file from start to limit. Blocks that the disk cannot read
// become zeros when holes is set, and an error otherwise.
func newReader(file vfs.File, start, limit int64, holes bool) *reader {
	r := &reader{
		file: file, limit: limit, holes: holes, start: start,
		ahead: make(chan chunk), free: make(chan []byte, chunksMax), stop: make(chan struct{}),
	}
	size := min(chunkBytes, max(limit-start, 0))
	for range chunksMax {
		r.free <- nil
	}
	r.stopped.Go(func() {
		defer close(r.ahead)
		for at := start; at < limit; at += size {
			var b []byte
			select {
			case b = <-r.free:
			case <-r.stop:
				return
			}
			if b == nil {
				b = make([]byte, size)
			}
			b = b[:min(size, limit-at)]
			err := readFull(file, b, at)
			if err != nil && holes {
				readBlocks(file, b, at)
				err = nil
			}
			select {
			case r.ahead <- chunk{b, err}:
			case <-r.stop:
				return
			}
		}
	})
	return r
}

func (r *reader) close() {
	close(r.stop)
	r.stopped.Wait()
}

// readFull treats the end of the file as zeros: it may have been cut meanwhile.
func readFull(file vfs.File, b []byte, at int64) error {
	n, err := file.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		clear(b[n:])
		return nil
	}
	return err
}

// readBlocks reads what it can, block by block, with zeros for the rest.
func readBlocks(file vfs.File, b []byte, at int64) {
	for len(b) > 0 {
		n := min(vfs.BlockBytes-int(at%vfs.BlockBytes), len(b))
		if err := readFull(file, b[:n], at); err != nil {
			clear(b[:n])
		}
		b, at = b[n:], at+int64(n)
	}
}

// at returns n bytes at offset, which must not go back by more than a chunk nor
// beyond limit. They are good until the next call.
func (r *reader) at(offset int64, n int) ([]byte, error) {
	for r.err == nil && offset >= r.start+int64(len(r.chunk)) {
		next, ok := <-r.ahead
		if !ok {
			r.err = io.ErrUnexpectedEOF
			break
		}
		if r.chunk != nil {
			r.start += int64(len(r.chunk))
			r.free <- r.chunk[:cap(r.chunk)]
		}
		r.chunk, r.err = next.bytes, next.err
	}
	if r.err != nil {
		return nil, r.err
	}
	from := int(offset - r.start)
	if from >= 0 && from+n <= len(r.chunk) {
		return r.chunk[from : from+n : from+n], nil
	}
	if cap(r.spill) < n {
		r.spill = make([]byte, n)
	}
	b := r.spill[:n]
	err := readFull(r.file, b, offset)
	if err != nil && r.holes {
		readBlocks(r.file, b, offset)
		err = nil
	}
	return b, err
}
