package parse

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// boundedMemory grows up to a bound.
type boundedMemory struct{ bytes, bytesMax int }

var errBoundedMemory = errors.New("no memory")

func (m *boundedMemory) Grow(n int) error {
	if m.bytes+n > m.bytesMax {
		return errBoundedMemory
	}
	m.bytes += n
	return nil
}

func protobufField(number byte, content []byte) []byte {
	b := binary.AppendUvarint([]byte{number<<3 | wireBytes}, uint64(len(content)))
	return append(b, content...)
}

// bombs are bodies that become much more than they are.
func bombs() map[string]func(*Batch) error {
	repeat := func(text string) []byte { return []byte(strings.Repeat(text, 20_000)) }
	lines, puts := repeat("a v=1\n"), repeat("put a 1 1\n")
	json := []byte("[" + strings.TrimSuffix(string(repeat(`{"metric":"m","timestamp":1,"value":1},`)), ",") + "]")
	remote1 := protobufField(1, append(
		protobufField(1, append(protobufField(1, []byte(metricLabel)), protobufField(2, []byte("m"))...)), repeat("\x12\x00")...))
	remote2 := protobufField(4, nil)
	for _, symbol := range []string{metricLabel, "m", "label", strings.Repeat("x", 4000)} {
		remote2 = append(remote2, protobufField(4, []byte(symbol))...)
	}
	symbols := append(append([]byte(nil), remote2...), repeat("\x22\x00")...)
	for range 500 {
		remote2 = append(remote2, protobufField(5, append(protobufField(1, []byte{1, 2, 3, 4}), protobufField(2, nil)...))...)
	}
	return map[string]func(*Batch) error{
		"lines":    func(b *Batch) error { _, err := Lines(b, lines, LineOptions{}); return err },
		"puts":     func(b *Batch) error { _, err := Puts(b, puts, PutOptions{PutsOnly: true}); return err },
		"JSON":     func(b *Batch) error { return JSON(b, json, Limits{}) },
		"remote 1": func(b *Batch) error { return RemoteWrite(b, remote1, RemoteWrite1, Limits{}) },
		"remote 2": func(b *Batch) error { return RemoteWrite(b, remote2, RemoteWrite2, Limits{}) },
		"symbols":  func(b *Batch) error { return RemoteWrite(b, symbols, RemoteWrite2, Limits{}) },
	}
}

// What a batch grows by is asked for before, in every protocol, and a refusal ends it.
func TestMemoryIsAsked(t *testing.T) {
	const slack = 64 << 10 // of allocations that are rounded up
	for name, parse := range bombs() {
		free := &boundedMemory{bytesMax: 1 << 40}
		b := Batch{Memory: free}
		if err := parse(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := b.MemoryBytes(); took > free.bytes+free.bytes/8+slack || free.bytes < 120_000 {
			t.Errorf("%s: %d bytes were asked for, and %d taken", name, free.bytes, took)
		}
		if err := parse(&b); err != nil || b.Memory != Memory(free) {
			t.Errorf("%s again: %v", name, err)
		}
		tight := &boundedMemory{bytesMax: free.bytes / 2}
		b = Batch{Memory: tight}
		if err := parse(&b); !errors.Is(err, errBoundedMemory) || len(b.Lines)+len(b.Points) != 0 {
			t.Errorf("%s with half of it: %v, %d lines", name, err, len(b.Lines))
		}
		if took := b.MemoryBytes(); took > tight.bytesMax+tight.bytesMax/8+slack {
			t.Errorf("%s with half of it: %d bytes taken of %d", name, took, tight.bytesMax)
		}
	}
}
