package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestConcurrentUse lets writers, a syncer, a trimmer and a reader run at once.
// Each record names its writer and number, so that order and loss show.
func TestConcurrentUse(t *testing.T) {
	m := vfs.NewMemFS()
	l := openLog(t, Options{FS: m, FileBytes: 64 << 10})
	const writers, buffers = 3, 400
	var group, helpers sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		group.Go(func() {
			var b Buffer
			last := Position(0)
			for n := range buffers {
				b.Reset()
				record := binary.LittleEndian.AppendUint32([]byte{byte(w)}, uint32(n))
				_, err := b.Add(record, bytes.Repeat([]byte{byte(n)}, n%500))
				if err != nil {
					t.Error(err)
				}
				start, end, err := l.Write(&b)
				if err != nil || start < last || end != start+Position(b.Len()) {
					t.Errorf("write gave [%d, %d) after %d, %v", start, end, last, err)
					return
				}
				last = end
			}
		})
	}
	helpers.Go(func() {
		for last := Position(0); ; {
			select {
			case <-done:
				return
			default:
			}
			end := l.End()
			synced, err := l.Sync()
			if err != nil || synced < end || synced < last {
				t.Errorf("synced %d after %d and %d, %v", synced, last, end, err)
				return
			}
			last = synced
		}
	})
	check := func() {
		next := [writers]uint32{}
		seen := [writers]bool{}
		err := l.Replay(0, func(_, _ Position, record []byte) error {
			w, n := record[0], binary.LittleEndian.Uint32(record[1:])
			if seen[w] && n != next[w] {
				t.Errorf("writer %d: record %d, want %d", w, n, next[w])
			}
			seen[w], next[w] = true, n+1
			return nil
		})
		if err != nil && !errors.Is(err, ErrTrimmed) {
			t.Error(err)
		}
	}
	helpers.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			check()
			if n%5 == 4 {
				if err := l.TrimBefore(l.End() - min(l.End(), 200<<10)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	group.Wait()
	close(done)
	helpers.Wait()
	if s := l.Stats(); s.Records != writers*buffers || s.Corruptions != 0 || s.BrokenErr != nil {
		t.Errorf("stats %+v", s)
	}
	must(t, l.Close())
	l = openLog(t, Options{FS: m, FileBytes: 64 << 10})
	check()
	must(t, l.Close())
}
