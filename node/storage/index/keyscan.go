package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// scan finds the records of a file that was just opened. It trusts the lengths
// first and checks every sum in parallel; only if anything is wrong it goes
// through the file again, slowly and with care.
func (f *keyFile) scan(o *Options) {
	firsts, ok := f.countRecords(o)
	if ok {
		ok = f.fillOffsets(o, firsts)
	}
	if !ok {
		f.offsets.Store(nil)
		f.scanDamaged(o)
	}
	f.count.Store(o.State.Count)
}

// scanAfter takes the chunks of offsets that are persisted, and finds the records behind them. It returns
// false if these are not exactly what the state says, or cannot be found.
func (f *keyFile) scanAfter(o *Options, persisted []*offsets, seals []*offsetsSeal) (ok bool, err error) {
	f.offsets.Store(&persisted)
	f.seals.Store(&seals)
	err = vfs.Guard(func() error {
		local, at := uint32(len(persisted))*offsetChunk, int64(keyHeaderBytes)
		if local > 0 {
			last := f.record(local - 1)
			if last == nil {
				return nil // where it ends is not known
			}
			if last, ok = cutRecord(last); !ok || !validRecord(last, local-1) {
				ok = false
				return nil
			}
			at = f.offset(local-1) + int64(len(last))
		}
		ok = f.scanFrom(o, local, at)
		return nil
	})
	f.count.Store(o.State.Count)
	return ok, err
}

// scanFrom finds the records from a place on, which is that of a series. It returns false if they
// are not whole.
func (f *keyFile) scanFrom(o *Options, local uint32, at int64) bool {
	for n := int(at >> blockBits); n < len(*f.blocks.Load()); n++ {
		b, start := f.span(n)
		if base := int64(n) << blockBits; at > base {
			start = int(at - base)
		}
		for {
			record, ok := cutRecord(b[start:])
			if !ok {
				break
			}
			if local >= o.State.Count || !validRecord(record, local) {
				return false
			}
			f.setOffset(local, int64(n)<<blockBits+int64(start), recordShard(record))
			start += len(record)
			local++
		}
		if zeros(b[start:]) != len(b)-start {
			return false
		}
	}
	return local == o.State.Count
}

// span returns the part of a block that holds records.
func (f *keyFile) span(n int) (b []byte, start int) {
	blocks := *f.blocks.Load()
	end := blockBytes
	if n == len(blocks)-1 {
		end = f.mu.used
	}
	if n == 0 {
		start = keyHeaderBytes
	}
	return blocks[n][:end], start
}

// countRecords returns the first local id of each block, by the lengths alone.
func (f *keyFile) countRecords(o *Options) (firsts []uint32, ok bool) {
	blocks := len(*f.blocks.Load())
	firsts = make([]uint32, blocks+1)
	var dirty atomic.Bool
	err := parallel(o.Workers, blocks, func(i int) error {
		return vfs.Guard(func() error {
			b, at := f.span(i)
			n := uint32(0)
			for {
				record, ok := cutRecord(b[at:])
				if !ok {
					break
				}
				at += len(record)
				n++
			}
			if zeros(b[at:]) != len(b)-at {
				dirty.Store(true)
			}
			firsts[i+1] = n
			return nil
		})
	})
	for i := range blocks {
		firsts[i+1] += firsts[i]
	}
	return firsts, err == nil && !dirty.Load() && firsts[blocks] == o.State.Count
}

// fillOffsets checks all sums and notes where the records are.
func (f *keyFile) fillOffsets(o *Options, firsts []uint32) bool {
	blocks := len(firsts) - 1
	for i := range blocks {
		for local := firsts[i]; local < firsts[i+1]; local++ {
			if local%offsetChunk == 0 {
				f.growOffsets(local, int64(i)<<blockBits)
			}
		}
	}
	var bad atomic.Bool
	err := parallel(o.Workers, blocks, func(i int) error {
		return vfs.Guard(func() error {
			b, at := f.span(i)
			for local := firsts[i]; local < firsts[i+1]; local++ {
				record, _ := cutRecord(b[at:])
				if !validRecord(record, local) {
					bad.Store(true)
					return nil
				}
				f.setOffset(local, int64(i)<<blockBits+int64(at), recordShard(record))
				at += len(record)
			}
			return nil
		})
	})
	return err == nil && !bad.Load()
}

// resync follows a damaged file. After damage every place is tried; a record says
// which number it has, and only numbers that are possible there are taken.
type resync struct {
	f       *keyFile
	corrupt func(error)
	count   uint32
	next    uint32 // the local id after the last record found
	skipped int64  // bytes since then that were no record
}

func (f *keyFile) scanDamaged(o *Options) {
	r := &resync{f: f, corrupt: o.Corrupt, count: o.State.Count}
	blocks := len(*f.blocks.Load())
	for i := range blocks {
		err := vfs.Guard(func() error { r.block(i); return nil })
		if err != nil {
			f.unread = true
			r.skipped += blockBytes
			r.corrupt(fmt.Errorf("series keys: %w", err))
		}
	}
	r.lose(o.State.Count, o.State.Bytes)
}

// block tries all places of a block. What a fault cuts short is found again by
// the next block.
func (r *resync) block(n int) {
	b, at := r.f.span(n)
	base := int64(n) << blockBits
	for at < len(b) {
		if record, local, ok := r.recordAt(b[at:]); ok {
			r.lose(local, base+int64(at))
			r.f.setOffset(local, base+int64(at), recordShard(record))
			r.next, r.skipped = local+1, 0
			at += len(record)
			continue
		}
		// Of a run of zeros (the padding, or what a disk lost) at most the last
		// bytes can begin a record: all before the high byte of its length may be zero.
		step := max(zeros(b[at:])-(recordIDAt-1), 1)
		at += step
		r.skipped += int64(step)
	}
}

func (r *resync) recordAt(b []byte) (record []byte, local uint32, ok bool) {
	record, ok = cutRecord(b)
	if !ok {
		return nil, 0, false
	}
	if !keyShaped(record[recordKeyAt:]) {
		return nil, 0, false
	}
	local = recordLocal(record)
	last := min(int64(r.next)+r.skipped/recordBytesMin+1, int64(r.count)-1)
	return record, local, local >= r.next && int64(local) <= last && validRecord(record, local)
}

// keyShaped reports whether bytes are cut into parts without a rest, with the names
// of the tags in order, as those of a key are. It is a cheap filter before the
// sum: what is no key mostly fails after a few parts.
func keyShaped(b []byte) bool {
	parts := 0
	var previous []byte
	for ; len(b) > 0; parts++ {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return false
		}
		part := b[used : used+int(n)]
		b = b[used+int(n):]
		if parts%2 != 0 || parts < 2 {
			continue
		}
		if parts > 2 && bytes.Compare(previous, part) >= 0 {
			return false
		}
		previous = part
	}
	return parts >= 2 && parts%2 == 0
}

// lose notes that the records from next to before local are gone.
func (r *resync) lose(local uint32, at int64) {
	if r.next == local {
		return
	}
	if int64(r.f.droppedBetween(r.next, local)) < int64(local)-int64(r.next) {
		r.corrupt(&CorruptError{
			File: r.f.file.Name(), Offset: at - r.skipped,
			What: fmt.Sprintf("the keys of series %d to %d are lost", r.next, local-1),
		})
	}
	for ; r.next < local; r.next++ {
		chunks := r.f.growOffsets(r.next, at)
		chunks[r.next>>offsetChunkBits].delta[r.next%offsetChunk] = offsetLost
	}
}
