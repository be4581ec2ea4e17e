package pagelog

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const benchPayload = 112 // with its header a page of 128 bytes

func benchLog(b *testing.B, pages int) (*Log, []Ref) {
	l, err := Open(Options{FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "pages")}, State{}, nil)
	must(b, err)
	b.Cleanup(func() { must(b, l.Close()) })
	payload := payloadOf(1, benchPayload)
	refs := make([]Ref, pages)
	for n := range refs {
		refs[n], err = l.Append(1, uint32(n), 0, payload)
		must(b, err)
	}
	must(b, l.Flush())
	return l, refs
}

func BenchmarkAppend(b *testing.B) {
	l, _ := benchLog(b, 1)
	payload := payloadOf(1, benchPayload)
	b.SetBytes(benchPayload + pageHeaderBytes)
	n := uint32(0)
	for b.Loop() {
		n++
		if _, err := l.Append(1, n, 0, payload); err != nil {
			ended, err := l.Roll()
			must(b, err)
			must(b, l.Drop(ended))
		}
	}
}

func BenchmarkAppendParallel(b *testing.B) {
	l, _ := benchLog(b, 1)
	payload := payloadOf(1, benchPayload)
	b.SetBytes(benchPayload + pageHeaderBytes)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := l.Append(1, 2, 0, payload); err != nil {
				if ended, err := l.Roll(); err == nil {
					_ = l.Drop(ended)
				}
			}
		}
	})
}

func BenchmarkReadInOrder(b *testing.B) { benchmarkRead(b, func([]Ref) {}) }

func BenchmarkReadShuffled(b *testing.B) {
	benchmarkRead(b, func(refs []Ref) {
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	})
}

func benchmarkRead(b *testing.B, order func([]Ref)) {
	l, refs := benchLog(b, 500_000)
	order(refs)
	pin := l.Pin()
	defer pin.Close()
	dst := make([]byte, 0, ReadBytesMax)
	i := 0
	for b.Loop() {
		if _, err := pin.Read(refs[i], dst); err != nil {
			b.Fatal(err)
		}
		if i++; i == len(refs) {
			i = 0
		}
	}
}

func BenchmarkEach(b *testing.B) {
	l, refs := benchLog(b, 500_000)
	pin := l.Pin()
	defer pin.Close()
	b.SetBytes(int64(len(refs)) * (benchPayload + pageHeaderBytes))
	for b.Loop() {
		n := 0
		must(b, pin.Each(1, func(Ref, Page) error { n++; return nil }))
		if n != len(refs) {
			b.Fatal(n)
		}
	}
}
