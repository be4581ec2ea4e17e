package index

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// The file of a part (FORMAT.md):
//
//	data · zeros to a multiple of 8 · u32 place of each metric
//	u64 bytes of data · u32 metrics · u32 values · u32 lo · u32 hi
const (
	partMagic  = "TMPOST\r\n"
	partFooter = 24
)

// writePart writes the file of a part.
func writePart(fs vfs.FS, name string, p *part) error {
	return writeWhole(fs, name, partMagic, func(w *wholeWriter) {
		for data := p.data; len(data) > 0; {
			n := min(len(data), wholeWriteBytes)
			w.bytes(data[:n])
			data = data[n:]
		}
		w.pad()
		for _, at := range p.metrics {
			w.uint32(at)
		}
		w.uint64(uint64(len(p.data)))
		w.uint32(uint32(len(p.metrics)))
		w.uint32(uint32(p.values))
		w.uint32(p.lo)
		w.uint32(p.hi)
	})
}

// fileBytes returns the bytes of the file of a part, or a few more.
func (p *part) fileBytes() int64 {
	const padding = 8
	return wholeHeader + int64(len(p.data)) + padding + int64(len(p.metrics))*4 + partFooter + wholeSumBytes
}

// openPart maps the part of the series from lo to hi (excluded).
func openPart(fs vfs.FS, name string, lo, hi uint32) (*part, error) {
	m, body, err := mapWhole(fs, name, partMagic)
	if err != nil {
		return nil, err
	}
	p := new(part)
	if err := m.Guard(func([]byte) error { return p.parse(name, body, lo, hi) }); err != nil {
		_ = m.Close()
		return nil, err
	}
	p.held = hold(p, m)
	return p, nil
}

// countDropped finds how many series the part was made without.
func (p *part) countDropped() (err error) {
	defer recoverRotten(&err)
	p.dropped = int(p.size())
	for i := range p.metrics {
		p.dropped -= int(p.entry(i).series.count)
	}
	return nil
}

func (p *part) parse(name string, body []byte, lo, hi uint32) error {
	damaged := func(what string, values ...any) error {
		return &CorruptError{File: name, What: fmt.Sprintf(what, values...)}
	}
	if len(body) < partFooter {
		return damaged("a body of %d bytes", len(body))
	}
	footer := body[len(body)-partFooter:]
	bytes, metrics := binary.LittleEndian.Uint64(footer), uint64(binary.LittleEndian.Uint32(footer[8:]))
	p.values = int(binary.LittleEndian.Uint32(footer[12:]))
	p.lo, p.hi = binary.LittleEndian.Uint32(footer[16:]), binary.LittleEndian.Uint32(footer[20:])
	if p.lo != lo || p.hi != hi || lo >= hi || hi-lo > mergeSeries {
		return damaged("it is of the series from %d to %d, not from %d to %d", p.lo, p.hi, lo, hi)
	}
	padded := (wholeHeader+bytes+7)&^7 - wholeHeader
	if bytes > uint64(len(body)) || padded+metrics*4+partFooter != uint64(len(body)) {
		return damaged("%d bytes of data and %d metrics are not in %d bytes", bytes, metrics, len(body))
	}
	p.data = body[:bytes]
	if metrics > 0 {
		p.metrics = unsafe.Slice((*uint32)(unsafe.Pointer(&body[padded])), metrics)
	}
	for _, at := range p.metrics {
		if uint64(at) >= bytes {
			return damaged("a metric is at byte %d of %d", at, bytes)
		}
	}
	p.seal = newSeal(body)
	return p.countDropped()
}
