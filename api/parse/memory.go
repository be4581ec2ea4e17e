package parse

import "unsafe"

// Memory is asked before a Batch grows: a short body may become much, as two bytes of
// protobuf are a point, and a reference to a label stands for all of its text.
type Memory interface {
	// Grow returns an error, which ends the parsing, if there is no room for so many
	// bytes more.
	Grow(bytes int) error
}

// What the elements of a Batch take.
const (
	lineBytes  = int(unsafe.Sizeof(Line{}))
	pointBytes = int(unsafe.Sizeof(Point{}))
	spanBytes  = int(unsafe.Sizeof(Span{}))
)

// Room that is made at once: each line has one more line and so many points more.
const (
	linesFirst  = 64
	pointsFirst = 256
	pointsAhead = 16
)

// capacityFor returns the capacity of a slice that has used up the one given.
func capacityFor(capacity, first int) int {
	const doubledMax = 1 << 16
	if capacity < doubledMax {
		return max(first, 2*capacity)
	}
	return capacity + capacity/2
}

// grow returns a slice of exactly the capacity, which append would round up.
func grow[T any](s []T, capacity int) []T {
	if capacity <= cap(s) {
		return s
	}
	return append(make([]T, 0, capacity), s...)
}

// room makes room for a line and a few points. Errors are those of Memory.
func (b *Batch) room() error {
	if len(b.Lines) < cap(b.Lines) && cap(b.Points)-len(b.Points) >= pointsAhead {
		return nil
	}
	return b.makeRoom()
}

func (b *Batch) makeRoom() error {
	lines, points := cap(b.Lines), cap(b.Points)
	if len(b.Lines) == lines {
		lines = capacityFor(lines, linesFirst)
	}
	if points-len(b.Points) < pointsAhead {
		points = capacityFor(points, pointsFirst)
	}
	if err := b.pay(lineBytes*(lines-cap(b.Lines)) + pointBytes*(points-cap(b.Points))); err != nil {
		return err
	}
	b.Lines, b.Points = grow(b.Lines, lines), grow(b.Points, points)
	return nil
}

// scratchRoom makes room for so many bytes in Scratch.
func (b *Batch) scratchRoom(bytes int) error {
	if cap(b.Scratch)-len(b.Scratch) >= bytes {
		return nil
	}
	capacity := max(capacityFor(cap(b.Scratch), 0), len(b.Scratch)+bytes)
	if err := b.pay(capacity - cap(b.Scratch)); err != nil {
		return err
	}
	b.Scratch = grow(b.Scratch, capacity)
	return nil
}

// symbolRoom makes room for a symbol.
func (b *Batch) symbolRoom() error {
	if len(b.symbols) < cap(b.symbols) {
		return nil
	}
	capacity := capacityFor(cap(b.symbols), linesFirst)
	if err := b.pay(spanBytes * (capacity - cap(b.symbols))); err != nil {
		return err
	}
	b.symbols = grow(b.symbols, capacity)
	return nil
}

// pay asks for bytes more, and for what the batch has grown by without asking: a single
// line may have thousands of points.
func (b *Batch) pay(bytes int) error {
	if b.Memory == nil {
		return nil
	}
	need := b.MemoryBytes() + bytes - b.paid
	if need <= 0 {
		return nil
	}
	if err := b.Memory.Grow(need); err != nil {
		return err
	}
	b.paid += need
	return nil
}
