package wal

import (
	"path/filepath"
	"testing"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

func benchLog(b *testing.B) *Log {
	l, err := Open(Options{FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "log")})
	must(b, err)
	waitForNext(b, l)
	b.Cleanup(func() { must(b, l.Close()) })
	return l
}

// benchBuffer has 16 records of 4 KiB, headers included.
func benchBuffer(b *testing.B) *Buffer {
	var buffer Buffer
	record := make([]byte, 4096-recordHeaderBytes)
	for range 16 {
		_, err := buffer.Add(record)
		must(b, err)
	}
	return &buffer
}

func BenchmarkAdd(b *testing.B) {
	var buffer Buffer
	record := make([]byte, 4096-recordHeaderBytes)
	b.SetBytes(int64(len(record)))
	for b.Loop() {
		if buffer.Records() == 16 {
			buffer.Reset()
		}
		_, _ = buffer.Add(record)
	}
}

func BenchmarkWrite64KiB(b *testing.B) {
	l, buffer := benchLog(b), benchBuffer(b)
	b.SetBytes(int64(buffer.Len()))
	var trimmed Position
	for b.Loop() {
		start, _, err := l.Write(buffer)
		must(b, err)
		if start > trimmed+256<<20 {
			must(b, l.TrimBefore(start))
			trimmed = start
		}
	}
	b.ReportMetric(float64(l.Stats().SwitchWaits), "waits")
}

func BenchmarkWriteSync4KiB(b *testing.B) {
	l := benchLog(b)
	var buffer Buffer
	_, err := buffer.Add(make([]byte, 4096-recordHeaderBytes))
	must(b, err)
	for b.Loop() {
		_, _, err := l.Write(&buffer)
		must(b, err)
		_, err = l.Sync()
		must(b, err)
	}
}

func BenchmarkReplay(b *testing.B) {
	l, buffer := benchLog(b), benchBuffer(b)
	for range 256 << 20 / buffer.Len() {
		_, _, err := l.Write(buffer)
		must(b, err)
	}
	b.SetBytes(256 << 20)
	for b.Loop() {
		n := 0
		must(b, l.Replay(0, func(Position, Position, []byte) error { n++; return nil }))
		if n != 256<<20/4096 {
			b.Fatal(n)
		}
	}
}
